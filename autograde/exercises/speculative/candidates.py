"""Wrong and right ways to write a speculative round. Each mistake is `base` with one part changed."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


def propose(draft, tokens, num_drafts):
    drafts, pushed = [], tokens[len(draft) :]
    for _ in range(num_drafts):
        drafts.append(int(draft.forward(pushed)[-1].argmax()))
        pushed = drafts[-1:]
    return drafts


def verify(target, tokens, drafts):
    return target.forward([tokens[-1], *drafts]).argmax(-1).tolist()


def accept(drafts, chosen):
    count = 0
    while count < len(drafts) and drafts[count] == chosen[count]:
        count += 1
    return count


def extend(tokens, drafts, chosen, count):
    return tokens + drafts[:count] + [chosen[count]]


def cut_target(target, new, before, count):
    target.truncate(len(new) - 1)


def cut_draft(draft, new, before, count):
    draft.truncate(min(len(draft), len(new) - 1))


def base(
    target,
    draft,
    tokens,
    num_drafts,
    propose=propose,
    verify=verify,
    accept=accept,
    extend=extend,
    cut_target=cut_target,
    cut_draft=cut_draft,
    after=lambda target, draft, new, drafts, count: new,
):
    drafts = propose(draft, tokens, num_drafts)
    chosen = verify(target, tokens, drafts)
    count = accept(drafts, chosen)
    new = extend(tokens, drafts, chosen, count)
    cut_target(target, new, len(tokens), count)
    cut_draft(draft, new, len(tokens), count)
    return after(target, draft, new, drafts, count)


def changed(**parts):
    def speculative_round(target, draft, tokens, num_drafts):
        return base(target, draft, tokens, num_drafts, **parts)

    return speculative_round


def only_the_drafts(target, tokens, drafts):
    return target.forward(drafts).argmax(-1).tolist() + [0]


# Cutting.


def no_cut(model, new, before, count):
    pass


def one_too_many(model, new, before, count):
    model.truncate(min(len(model), len(new)))


def one_too_few(model, new, before, count):
    model.truncate(min(len(model), len(new) - 2))


def to_the_start(model, new, before, count):
    model.truncate(before - 1)


def by_accepted(model, new, before, count):
    """Takes the length for the number of rows to keep of this round."""
    model.truncate(count + 1)


def by_rejected(model, new, before, count):
    """Takes the length for the number of rows to drop."""
    model.truncate(len(model) - (len(new) - 1))


def zeros_instead(model, new, before, count):
    """The rejected rows are filled with token 0, the length stays."""
    rows = len(model) - (len(new) - 1)
    model.truncate(len(new) - 1)
    if rows > 0:
        model.forward([0] * rows)


def beyond_what_it_holds(draft, new, before, count):
    draft.truncate(len(new) - 1)


def only_when_rejected_all(model, new, before, count):
    if count == 0:
        model.truncate(len(new) - 1)


def cut_like_the_draft(target, draft, tokens, num_drafts):
    """Both caches are cut to one length, that of the shorter."""
    drafts = propose(draft, tokens, num_drafts)
    chosen = verify(target, tokens, drafts)
    new = extend(tokens, drafts, chosen, accept(drafts, chosen))
    length = min(len(draft), len(target), len(new) - 1)
    target.truncate(length)
    draft.truncate(length)
    return new


# Accepting.


def count_matches(drafts, chosen):
    return sum(d == c for d, c in zip(drafts, chosen))


def one_fewer(drafts, chosen):
    return max(0, accept(drafts, chosen) - 1)


def against_the_next(drafts, chosen):
    """Draft i is compared with what was chosen after it, not with what was chosen for it."""
    return accept(drafts, chosen[1:])


def last_match(drafts, chosen):
    """As far as the last draft that agrees."""
    return max((i + 1 for i, d in enumerate(drafts) if d == chosen[i]), default=0)


def all_or_nothing(drafts, chosen):
    return len(drafts) if drafts == chosen[:-1] else 0


def no_comparison(drafts, chosen):
    return len(drafts)


def any_match(tokens, drafts, chosen, count):
    """All drafts that agree, wherever they stand."""
    return tokens + [d for d, c in zip(drafts, chosen) if d == c] + [chosen[count]]


# What is added.


def no_own_token(tokens, drafts, chosen, count):
    return tokens + drafts[:count]


def bonus_missing(tokens, drafts, chosen, count):
    return tokens + drafts[:count] + ([chosen[count]] if count < len(drafts) else [])


def wrong_draft_stays(tokens, drafts, chosen, count):
    return tokens + (drafts[: count + 1] if count < len(drafts) else [*drafts, chosen[count]])


def newest_choice(tokens, drafts, chosen, count):
    return tokens + drafts[:count] + [chosen[-1]]


def choice_before(tokens, drafts, chosen, count):
    return tokens + drafts[:count] + [chosen[count - 1]]


def drafts_first(tokens, drafts, chosen, count):
    return tokens + drafts + drafts[:count] + [chosen[count]]


def only_new(target, draft, new, drafts, count):
    return new[-count - 1 :]


def pushes_its_own(target, draft, new, drafts, count):
    """The new token is pushed through the target at once, as if the next round did not do it."""
    target.forward(new[-1:])
    return new


def pushes_bonus(target, draft, new, drafts, count):
    if count == len(drafts):
        target.forward(new[-1:])
    return new


# Drafting.


def last_only(draft, tokens, num_drafts):
    """The first push is always the last token, though the draft model may lack the one before it too."""
    return propose(draft, [0] * len(draft) + tokens[-1:], num_drafts)


def all_tokens_again(draft, tokens, num_drafts):
    """All tokens are pushed, on top of what is held."""
    return propose(draft, [0] * len(draft) + tokens, num_drafts)


def does_not_see_its_drafts(draft, tokens, num_drafts):
    first = int(draft.forward(tokens[len(draft) :])[-1].argmax())
    return [first] + [int(draft.forward(tokens[-1:])[-1].argmax()) for _ in range(num_drafts - 1)]


def same_draft(draft, tokens, num_drafts):
    """One draft, repeated."""
    drafts = propose(draft, tokens, num_drafts)
    return drafts[:1] * num_drafts


def one_draft_fewer(draft, tokens, num_drafts):
    return propose(draft, tokens, max(1, num_drafts - 1))


def one_draft_more(draft, tokens, num_drafts):
    return propose(draft, tokens, num_drafts + 1)


def starts_over(draft, tokens, num_drafts):
    draft.truncate(0)
    return propose(draft, tokens, num_drafts)


def prefix_each_time(draft, tokens, num_drafts):
    """The whole text is pushed anew for each draft."""
    drafts = []
    for _ in range(num_drafts):
        draft.truncate(0)
        drafts.append(int(draft.forward(tokens + drafts)[-1].argmax()))
    return drafts


# Verifying.


def without_the_last_token(target, tokens, drafts):
    """Only the drafts are pushed: the last token never gets a row, and the first draft is taken on trust."""
    return [drafts[0], *target.forward(drafts).argmax(-1).tolist()]


def single_steps(target, tokens, drafts):
    return [int(target.forward([token])[-1].argmax()) for token in [tokens[-1], *drafts]]


def whole_text(target, tokens, drafts):
    target.truncate(0)
    return target.forward(tokens + drafts).argmax(-1).tolist()[-len(drafts) - 1 :]


def twice(target, tokens, drafts):
    """A second pass over the same tokens, to get the logits of the last one."""
    held = len(target)
    chosen = verify(target, tokens, drafts)
    target.truncate(held)
    return [*chosen[:-1], verify(target, tokens, drafts)[-1]]


def two_passes(target, tokens, drafts):
    """One pass for the drafts, and one for the token after the last of them."""
    first = target.forward([tokens[-1], *drafts[:-1]]).argmax(-1).tolist()
    return first + target.forward(drafts[-1:]).argmax(-1).tolist()


def until_it_differs(target, draft, tokens, num_drafts):
    """Steps of one token: nothing is ever rejected from the target's cache, and nothing is saved."""
    drafts, new = propose(draft, tokens, num_drafts), list(tokens)
    for d in [*drafts, None]:
        new.append(int(target.forward(new[-1:])[-1].argmax()))
        if new[-1] != d:
            break
    cut_draft(draft, new, len(tokens), 0)
    return new


def bonus_of_the_draft(target, draft, tokens, num_drafts):
    """When all drafts are accepted, the draft model gives the token after them."""
    drafts = propose(draft, tokens, num_drafts)
    chosen = verify(target, tokens, drafts)
    count = accept(drafts, chosen)
    if count == num_drafts:
        chosen[count] = int(draft.forward(drafts[-1:])[-1].argmax())
    new = extend(tokens, drafts, chosen, count)
    cut_target(target, new, len(tokens), count)
    cut_draft(draft, new, len(tokens), count)
    return new


def target_alone(target, draft, tokens, num_drafts):
    """The target writes by itself; the draft model only follows."""
    new = list(tokens)
    for _ in range(num_drafts + 1):
        new.append(int(target.forward(new[-1:])[-1].argmax()))
    draft.forward(new[len(draft) : -1])
    return new


def member(drafts, chosen):
    """A draft that the target chose for its place or for one before it is taken for accepted."""
    return next((i for i, d in enumerate(drafts) if d not in chosen[: i + 1]), len(drafts))


def newest_row_again(draft, tokens, num_drafts):
    """The newest row held is cut off and pushed once more, for the sake of its logits."""
    draft.truncate(max(0, len(draft) - 1))
    return propose(draft, tokens, num_drafts)


def pushes_the_last_draft_for_nothing(draft, tokens, num_drafts):
    drafts = propose(draft, tokens, num_drafts)
    draft.forward(drafts[-1:])
    return drafts


def last_draft_cut(draft, new, before, count):
    """Also when the last draft was accepted."""
    draft.truncate(min(len(draft) - 1, len(new) - 1))


def another_pass_if_none(target, draft, tokens, num_drafts):
    """When no draft is accepted, the target starts anew from the last token."""
    drafts = propose(draft, tokens, num_drafts)
    chosen = verify(target, tokens, drafts)
    count = accept(drafts, chosen)
    if count == 0:
        target.truncate(len(tokens) - 1)
        chosen = target.forward(tokens[-1:]).argmax(-1).tolist()
    new = extend(tokens, drafts, chosen, count)
    cut_target(target, new, len(tokens), count)
    cut_draft(draft, new, len(tokens), count)
    return new


MISTAKES = (
    Mistake(
        "keeps-all-rows",
        changed(cut_target=no_cut, cut_draft=no_cut),
        "Nothing is cut: rejected drafts stay in both caches. The best token may stay the same, the logits do not.",
        killed_by="none accepted",
        seen_in="speculative loops that were tested by their text alone",
    ),
    Mistake(
        "target-not-cut",
        changed(cut_target=no_cut),
        "The draft model is cut, the target is not: it keeps the rows of rejected drafts. "
        "`target.truncate(len(new) - 1)`.",
        killed_by="none accepted",
    ),
    Mistake(
        "draft-not-cut",
        changed(cut_draft=no_cut),
        "The target is cut, the draft model is not: from now on it drafts behind tokens that were rejected.",
        killed_by="none accepted",
        seen_in="speculative loops: the text stays right, only ever fewer drafts are accepted",
    ),
    Mistake(
        "one-row-too-many",
        changed(cut_target=one_too_many),
        "The target keeps one row too many. The last of the new tokens has no row yet: len(new) - 1 rows are right.",
        killed_by="none accepted",
    ),
    Mistake(
        "one-row-too-few",
        changed(cut_target=one_too_few),
        "The target keeps one row too few: the last token was pushed too. All new tokens but the last have a row.",
        killed_by="none accepted",
    ),
    Mistake(
        "target-cut-to-the-start",
        changed(cut_target=to_the_start),
        "The target is cut to where it was before the round: right rows are thrown away, and never come back.",
        killed_by="none accepted",
    ),
    Mistake(
        "draft-one-row-too-few",
        changed(cut_draft=one_too_few),
        "The draft model keeps one row too few. It may hold all new tokens but the last.",
        killed_by="none accepted",
    ),
    Mistake(
        "draft-cut-to-the-start",
        changed(cut_draft=to_the_start),
        "The draft model is cut to where it was before the round. Keep the rows of the last token and the accepted drafts.",
        killed_by="none accepted",
    ),
    Mistake(
        "cut-to-a-count",
        changed(cut_target=by_accepted, cut_draft=by_accepted),
        "`truncate` is given the rows to keep of this round. It takes the whole length: all rows to keep.",
        killed_by="none accepted",
    ),
    Mistake(
        "cut-by-a-count",
        changed(cut_target=by_rejected),
        "`truncate` is given the number of rows to drop. It takes the length to keep.",
        killed_by="none accepted",
    ),
    Mistake(
        "zeros-for-rejected-rows",
        changed(cut_target=zeros_instead, cut_draft=zeros_instead),
        "Rejected rows are overwritten, the length stays. Whatever a row holds, it gets weight: it has to go.",
        killed_by="none accepted",
    ),
    Mistake(
        "no-comparison",
        changed(accept=no_comparison),
        "All drafts are accepted unseen. Accept those that the target would have chosen, from the front.",
        killed_by="none accepted",
    ),
    Mistake(
        "no-token-of-its-own",
        changed(extend=no_own_token),
        "The target's own token is missing: each round adds the accepted drafts and one more, chosen[accepted].",
        killed_by="none accepted",
    ),
    Mistake(
        "wrong-draft-stays",
        changed(extend=wrong_draft_stays),
        "The first rejected draft is kept in place of the target's own token.",
        killed_by="none accepted",
    ),
    Mistake(
        "token-of-the-last-row",
        changed(extend=newest_choice),
        "The target's token is taken from the last row of logits, which follows rejected drafts. It is chosen[accepted].",
        killed_by="none accepted",
    ),
    Mistake(
        "token-of-the-row-before",
        changed(extend=choice_before),
        "The target's token is taken one row too early: chosen[accepted - 1] is the last accepted draft again.",
        killed_by="none accepted",
    ),
    Mistake(
        "drafts-added-before-verification",
        changed(extend=drafts_first),
        "The drafts are added to the tokens before the target has seen them, and the accepted ones once more.",
        killed_by="none accepted",
    ),
    Mistake(
        "only-new-tokens",
        changed(after=only_new),
        "Only the round's tokens come back. Return all of them: the old ones, then the new.",
        killed_by="none accepted",
    ),
    Mistake(
        "own-token-pushed",
        changed(after=pushes_its_own),
        "The new token is pushed through the target at once. The next round pushes it, so it would have two rows.",
        killed_by="none accepted",
    ),
    Mistake(
        "last-token-not-verified",
        changed(verify=without_the_last_token),
        "The target is pushed the drafts only. The last token has no row yet: push `[tokens[-1], *drafts]`.",
        killed_by="none accepted",
    ),
    Mistake(
        "all-tokens-pushed-again",
        changed(propose=all_tokens_again),
        "The draft model is pushed all tokens, on top of those it holds. Push what it lacks: tokens[len(draft):].",
        killed_by="none accepted",
    ),
    Mistake(
        "target-writes-alone",
        target_alone,
        "The target writes token by token and no draft is ever proposed. Draft first, then verify in one pass.",
        killed_by="none accepted",
    ),
    Mistake(
        "any-match",
        changed(extend=any_match),
        "Drafts behind a rejected one are accepted where they agree. They were checked against a wrong past.",
        killed_by="some accepted",
    ),
    Mistake(
        "matches-counted",
        changed(accept=count_matches),
        "The drafts that agree are counted, wherever they stand. Count from the front, up to the first that differs.",
        killed_by="some accepted",
        seen_in="`(drafts == chosen).sum()` for `.cumprod(0).sum()`",
    ),
    Mistake(
        "up-to-the-last-match",
        changed(accept=last_match),
        "Drafts are accepted up to the last one that agrees. The first that differs ends it.",
        killed_by="some accepted",
    ),
    Mistake(
        "one-accepted-too-few",
        changed(accept=one_fewer),
        "One draft fewer is accepted than agrees, which costs a token a round.",
        killed_by="some accepted",
    ),
    Mistake(
        "compared-with-the-next",
        changed(accept=against_the_next),
        "Draft i is compared with what the target chose after it. The row before it chose for its place: chosen[i].",
        killed_by="some accepted",
    ),
    Mistake(
        "all-or-nothing",
        changed(accept=all_or_nothing),
        "One wrong draft rejects all of them. Those before it are right.",
        killed_by="some accepted",
    ),
    Mistake(
        "cut-only-when-all-rejected",
        changed(cut_target=only_when_rejected_all, cut_draft=only_when_rejected_all),
        "The caches are cut only when every draft was rejected. Some rejected drafts leave rows as well.",
        killed_by="some accepted",
    ),
    Mistake(
        "blind-drafting",
        changed(propose=does_not_see_its_drafts),
        "The draft model is pushed the last token again and again. Push each draft, so that the next one follows it.",
        killed_by="some accepted",
    ),
    Mistake(
        "one-draft-repeated",
        changed(propose=same_draft),
        "One draft is proposed num_drafts times. Each draft follows the one before it.",
        killed_by="some accepted",
    ),
    Mistake(
        "one-draft-fewer",
        changed(propose=one_draft_fewer),
        "One draft fewer than num_drafts is proposed.",
        "some accepted",
    ),
    Mistake(
        "one-draft-more", changed(propose=one_draft_more), "One draft more than num_drafts is proposed.", "all accepted"
    ),
    Mistake(
        "bonus-missing",
        changed(extend=bonus_missing),
        "When all drafts are accepted, the target's token behind them is missing: its last row chose one for nothing.",
        killed_by="all accepted",
    ),
    Mistake(
        "bonus-row-taken-for-held",
        changed(after=pushes_bonus),
        "When all drafts are accepted, the bonus token gets a row at once. It is pushed in the next round, like any other.",
        killed_by="all accepted",
    ),
    Mistake(
        "bonus-of-the-draft-model",
        bonus_of_the_draft,
        "When all drafts are accepted, the next token comes from the draft model. The target has already chosen it.",
        killed_by="all accepted",
    ),
    Mistake(
        "draft-cut-beyond-its-end",
        changed(cut_draft=beyond_what_it_holds),
        "When all drafts are accepted, the draft model lacks the row of the last one: it cannot be cut to len(new) - 1.",
        killed_by="all accepted",
    ),
    Mistake(
        "both-cut-alike",
        cut_like_the_draft,
        "Both caches are cut to one length. When all drafts are accepted, the target holds one row more, and needs it.",
        killed_by="all accepted",
    ),
    Mistake(
        "last-draft-never-pushed",
        changed(propose=last_only),
        "After a round with all drafts accepted the draft model lacks a row, and the next token is put in its place.",
        killed_by="round after round",
        seen_in="speculative loops that push the last token only",
    ),
    Mistake(
        "verified-step-by-step",
        changed(verify=single_steps),
        "The target makes a pass for each draft. One pass over `[tokens[-1], *drafts]` gives all rows at once.",
        killed_by="work",
    ),
    Mistake(
        "stepped-until-it-differs",
        until_it_differs,
        "The target goes step by step until a draft differs: as many passes as without drafts. Verify in one pass.",
        killed_by="work",
    ),
    Mistake(
        "second-pass-for-the-bonus",
        changed(verify=two_passes),
        "A second pass is made for the last draft. Put it into the first: its row of logits gives the token after it.",
        killed_by="work",
    ),
    Mistake(
        "verified-twice", changed(verify=twice), "The target makes the same pass twice. One gives all rows.", "work"
    ),
    Mistake(
        "target-starts-over",
        changed(verify=whole_text),
        "The target works out the whole text again. Its cache holds all but the last token: push only what is new.",
        killed_by="work",
    ),
    Mistake(
        "draft-starts-over",
        changed(propose=starts_over),
        "The draft model works out the whole text again in each round. Push only what it lacks.",
        killed_by="work",
    ),
    Mistake(
        "draft-starts-over-for-each-draft",
        changed(propose=prefix_each_time),
        "The draft model works out the whole text again for each draft. Push the draft before it, nothing else.",
        killed_by="work",
    ),
    Mistake(
        "only-the-drafts-verified",
        changed(verify=only_the_drafts),
        "The target is pushed the drafts without the last token: its row 0 then speaks of draft 1, not of draft 0.",
        killed_by="none accepted",
    ),
    Mistake(
        "accepted-if-chosen-before",
        changed(accept=member),
        "A draft is accepted if the target chose that token here or before. It must be the choice for its own place: chosen[i].",
        killed_by="some accepted",
    ),
    Mistake(
        "newest-row-drafted-again",
        changed(propose=newest_row_again),
        "The draft model's newest row is cut off and pushed again. It is right: push only what is lacking.",
        killed_by="work",
        seen_in="loops that always push the last token they know to get its logits",
    ),
    Mistake(
        "accepted-draft-cut-off",
        changed(propose=pushes_the_last_draft_for_nothing, cut_draft=last_draft_cut),
        "The last draft is pushed through the draft model, and its row thrown away though it was accepted.",
        killed_by="work",
    ),
    Mistake(
        "another-pass-when-none-is-accepted",
        another_pass_if_none,
        "When no draft is accepted, the target makes a second pass. The first has chosen already: chosen[0].",
        killed_by="work",
    ),
)


def eager(target, draft, tokens, num_drafts):
    """The last draft is pushed through the draft model too, so that both caches are always cut alike."""
    assert len(draft) == len(target) == len(tokens) - 1
    drafts, token = [], tokens[-1]
    for _ in range(num_drafts):
        token = int(torch.argmax(draft.forward([token])[0]))
        drafts.append(token)
    draft.forward([token])
    chosen = target.forward(tokens[-1:] + drafts).argmax(dim=1)
    same = torch.tensor(drafts) == chosen[:-1]
    count = int(same.int().cumprod(0).sum())
    for model in (target, draft):
        model.truncate(len(tokens) + count)
    return tokens + drafts[:count] + [int(chosen[count])]


def with_tensors(target, draft, tokens, num_drafts):
    """Tokens stay tensors on the way; a tensor comes back."""
    text = torch.tensor(tokens)
    while len(draft) < len(tokens) - 1:
        draft.forward(text[len(draft) : len(draft) + 1])
    drafts = []
    newest = text[-1:]
    for _ in range(num_drafts):
        newest = draft.forward(newest).argmax(-1)
        drafts.append(newest)
    asked = torch.cat((text[-1:], *drafts))
    chosen = target.forward(asked).argmax(-1)
    wrong = (asked[1:] != chosen[:-1]).nonzero().flatten().tolist()
    count = wrong[0] if wrong else num_drafts
    keep = len(tokens) + count
    target.truncate(keep)
    if len(draft) > keep:
        draft.truncate(keep)
    return torch.cat((text, asked[1 : count + 1], chosen[count : count + 1]))


def in_a_loop(target, draft, tokens, num_drafts):
    """One pass, then a walk along its rows; what is missing in the draft model is pushed at the end."""
    new = list(tokens)
    drafts = propose(draft, tokens, num_drafts)
    for row, d in zip(target.forward([new[-1]] + drafts), [*drafts, None]):
        new.append(int(row.argmax()))
        if new[-1] != d:
            break
    target.truncate(len(new) - 1)
    if len(draft) < len(new) - 1:
        draft.forward(new[len(draft) : -1])
    else:
        draft.truncate(len(new) - 1)
    return tuple(new)


def from_a_queue(target, draft, tokens, num_drafts):
    """Whatever the draft model lacks waits in a queue and goes in one by one."""
    waiting, drafts = list(tokens[len(draft) :]), []
    while len(drafts) < num_drafts:
        logits = draft.forward([waiting.pop(0)])
        if not waiting:
            drafts.append(logits[-1].topk(1).indices.item())
            waiting = drafts[-1:]
    chosen = target.forward([tokens[-1], *drafts]).max(-1).indices.tolist()
    new = list(tokens)
    for d, c in zip([*drafts, None], chosen):
        new.append(c)
        if d != c:
            break
    for model in (target, draft):
        for _ in range(max(0, len(model) - len(new) + 1)):  # row by row
            model.truncate(len(model) - 1)
    return new


VARIANTS = (
    Variant("the draft model may lag by one row", changed()),
    Variant("the last draft is pushed at once, cumprod", eager),
    Variant("tensors all the way", with_tensors),
    Variant("a walk along the rows, a tuple comes back", in_a_loop),
    Variant("a queue, and cut row by row", from_a_queue),
)
