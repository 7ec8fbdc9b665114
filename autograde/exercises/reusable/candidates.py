"""Wrong and right ways to say what may be reused. Each mistake changes one thing in `work`."""

from __future__ import annotations

import hashlib
import json
from itertools import takewhile
from os.path import commonprefix

from autograde.exercise import Mistake, Variant

FRONT, LAST, SAME = "the same in front", "the last token", "the same identity"
FREE, MISSING = "what does not matter", "missing fields"
NAMES = ("weights", "adapter", "tokenizer", "template", "tenant", "positions")


def same(held, wanted, names=NAMES):
    return all((name in held) == (name in wanted) and held.get(name) == wanted.get(name) for name in names)


def common(held, wanted):
    n = 0
    while n < min(len(held), len(wanted)) and held[n] == wanted[n]:
        n += 1
    return n


def but_one(n, held, wanted):
    return min(n, len(wanted) - 1)


def work(is_same=same, alike=common, most=but_one, other=0):
    def reusable(held, wanted):
        if not is_same(held, wanted):
            return other
        return most(alike(held["tokens"], wanted["tokens"]), held["tokens"], wanted["tokens"])

    return reusable


def without(*left_out):
    return work(is_same=lambda held, wanted: same(held, wanted, [name for name in NAMES if name not in left_out]))


def looked_at(change):
    """The identity compared after a change of each value."""

    def is_same(held, wanted):
        present = same({n: 0 for n in NAMES if n in held}, {n: 0 for n in NAMES if n in wanted})
        return present and all(change(held[n], n) == change(wanted[n], n) for n in NAMES if n in held)

    return work(is_same=is_same)


def all_fields(held, wanted):
    names = (held.keys() | wanted.keys()) - {"tokens"}
    return same(held, wanted, names)


def shared_fields(held, wanted):
    """Every field that both have, whatever it is."""
    names = set(NAMES) ^ ((held.keys() & wanted.keys()) - {"tokens"} - set(NAMES))
    return same(held, wanted, names)


def as_set(held, wanted):
    """The values, whichever field they stand in."""
    return same(dict.fromkeys(NAMES & held.keys()), dict.fromkeys(NAMES & wanted.keys())) and (
        {held.get(name) for name in NAMES} == {wanted.get(name) for name in NAMES}
    )


def as_text(held, wanted):
    """The values in one text, with nothing between them."""
    texts = ["".join(str(one[name]) if name in one else "\n" for name in NAMES) for one in (held, wanted)]
    return texts[0] == texts[1]


def in_order(held, wanted):
    """The fields as they stand in the dict, compared one by one."""
    of = [[(name, one[name]) for name in one if name in NAMES] for one in (held, wanted)]
    return of[0] == of[1]


def with_none(held, wanted):
    """A field that is missing passes for None."""
    return all(held.get(name) == wanted.get(name) for name in NAMES)


def of_the_held(held, wanted):
    """Only fields that the held one has are compared."""
    return all(name in wanted and held[name] == wanted[name] for name in NAMES if name in held)


def of_the_wanted(held, wanted):
    return all(name in held and held[name] == wanted[name] for name in NAMES if name in wanted)


def of_both(held, wanted):
    return all(held[name] == wanted[name] for name in NAMES if name in held and name in wanted)


def must_be_there(held, wanted):
    """A field that both lack counts as a difference."""
    return all(name in held and name in wanted and held[name] == wanted[name] for name in NAMES)


def none_of_them(held, wanted):
    """A missing field differs from everything, but None does not stand for itself."""
    return same(held, wanted) and held.get("adapter") is not None


def base_is_any(held, wanted):
    """Rows of the base model are taken for those of every adapter."""
    names = [name for name in NAMES if name != "adapter"]
    if "adapter" not in held or "adapter" not in wanted or held["adapter"] is not None:
        names = NAMES
    return same(held, wanted, names)


def any_is_base(held, wanted):
    """A request without an adapter takes the rows of whatever there is."""
    names = [name for name in NAMES if name != "adapter"]
    if "adapter" not in held or "adapter" not in wanted or wanted["adapter"] is not None:
        names = NAMES
    return same(held, wanted, names)


def two_may_differ(held, wanted):
    """One field that differs is let pass."""
    return sum(not same(held, wanted, [name]) for name in NAMES) <= 1


def raises_when_missing(held, wanted):
    return all(held[name] == wanted[name] for name in NAMES)


def by_object(held, wanted):
    """The same object, not an equal one."""
    return all((name in held) == (name in wanted) and held.get(name) is wanted.get(name) for name in NAMES)


def with_default(default):
    """A field that is missing passes for the default."""
    return work(is_same=lambda held, wanted: all(held.get(n, default) == wanted.get(n, default) for n in NAMES))


def takes_out_the_last(held, wanted):
    """The last wanted token is taken out of the caller's list."""
    wanted.pop()
    return common(held, wanted)


def sixteen_bits(held, wanted):
    return common([token % 65536 for token in held], [token % 65536 for token in wanted])


def tokens_by_object(held, wanted):
    return next((i for i, (a, b) in enumerate(zip(held, wanted)) if a is not b), min(len(held), len(wanted)))


def equal_places(held, wanted):
    return sum(a == b for a, b in zip(held, wanted))


def in_both(held, wanted):
    return len(set(held) & set(wanted))


def up_to_zero(held, wanted):
    n = common(held, wanted)
    return held.index(0) if 0 in held[:n] else n


def as_one_text(held, wanted):
    """The tokens joined into one text; as many tokens as fit into what is alike."""
    alike = len(commonprefix(["".join(map(str, held)), "".join(map(str, wanted))]))
    n, letters = 0, 0
    while n < min(len(held), len(wanted)) and letters + len(str(wanted[n])) <= alike:
        letters += len(str(wanted[n]))
        n += 1
    return n


def letters_alike(held, wanted):
    """The letters of a joined text, counted as if they were tokens."""
    return len(commonprefix([" ".join(map(str, held)), " ".join(map(str, wanted))]))


def all_or_nothing(held, wanted):
    return len(held) if wanted[: len(held)] == held or held[: len(wanted)] == wanted else 0


def first_decides(held, wanted):
    return min(len(held), len(wanted)) if held[:1] == wanted[:1] else 0


def from_the_end(held, wanted):
    return common(held[::-1], wanted[::-1])


def anywhere(held, wanted):
    """The longest stretch that both have, wherever it stands."""
    best = 0
    for i in range(len(held)):
        for j in range(len(wanted)):
            best = max(best, common(held[i:], wanted[j:]))
    return best


def first_difference(held, wanted):
    """The place of the first difference; where there is none, nothing is found."""
    return next((i for i, (a, b) in enumerate(zip(held, wanted)) if a != b), 0)


def sorted_tokens(held, wanted):
    return common(sorted(held), sorted(wanted))


MISTAKES = (
    Mistake(
        "equal-places",
        work(alike=equal_places),
        "You count equal tokens behind the first difference too. Their rows depend on all tokens before them.",
        FRONT,
    ),
    Mistake(
        "in-both",
        work(alike=in_both),
        "You count tokens that are in both, wherever they stand. Only what both begin with can be reused.",
        FRONT,
    ),
    Mistake(
        "all-or-nothing",
        work(alike=all_or_nothing),
        "You reuse all or nothing. Where both begin alike and then differ, the beginning is reused.",
        FRONT,
    ),
    Mistake(
        "first-decides",
        work(alike=first_decides),
        "You look at the first token only. Compare token by token, up to the first difference.",
        FRONT,
    ),
    Mistake(
        "from-the-end",
        work(alike=from_the_end),
        "You count equal tokens from the end. A row depends on the tokens before it: count from the start.",
        FRONT,
    ),
    Mistake(
        "anywhere",
        work(alike=anywhere),
        "You look for an equal stretch anywhere. The same tokens behind others, at other positions, have other rows.",
        FRONT,
    ),
    Mistake(
        "sorted",
        work(alike=sorted_tokens),
        "You sort the tokens. Their order is what makes a text.",
        FRONT,
    ),
    Mistake(
        "first-difference-or-nothing",
        work(alike=first_difference),
        "You look for the first difference. Where one list is the beginning of the other there is none, and you say 0.",
        FRONT,
    ),
    Mistake(
        "one-token-less",
        work(alike=lambda held, wanted: max(common(held, wanted) - 1, 0)),
        "You always leave one token out. Only the last *wanted* token has to be computed.",
        FRONT,
    ),
    Mistake(
        "one-token-more",
        work(alike=lambda held, wanted: common(held, wanted) + 1),
        "You count the first token that differs. It has to be computed.",
        FRONT,
    ),
    Mistake(
        "up-to-zero",
        work(alike=up_to_zero),
        "Token 0 ends your count. It is a token like any other: do not ask `if token`.",
        FRONT,
    ),
    Mistake(
        "as-one-text",
        work(alike=as_one_text),
        "You join tokens into one text: [1, 23] and [12, 3] become the same. Compare numbers.",
        FRONT,
    ),
    Mistake(
        "letters-alike",
        work(alike=letters_alike),
        "You count letters of a text. Wanted is a number of tokens.",
        FRONT,
    ),
    Mistake(
        "to-be-computed",
        work(most=lambda n, held, wanted: len(wanted) - min(n, len(wanted) - 1)),
        "You return how many tokens have to be computed. Wanted is how many need not be.",
        FRONT,
    ),
    Mistake(
        "held-length",
        work(alike=lambda held, wanted: len(held)),
        "You return what is held, whatever its tokens are. Only what both begin with can be reused.",
        FRONT,
    ),
    Mistake(
        "true-or-false",
        work(most=lambda n, held, wanted: min(n, len(wanted) - 1) > 0, other=False),
        "You say whether anything can be reused. Wanted is how many tokens.",
        FRONT,
    ),
    Mistake(
        "whole-prompt",
        work(most=lambda n, held, wanted: n),
        "You reuse every wanted token. Then nothing is computed, and there are no logits: leave the last one.",
        LAST,
    ),
    Mistake(
        "held-but-one",
        work(most=lambda n, held, wanted: n if n < len(held) else min(n, len(wanted) - 1, len(held) - 1)),
        "You leave out the last token that is held. The last one *wanted* has to be computed.",
        FRONT,
    ),
    Mistake(
        "only-when-equal",
        work(most=lambda n, held, wanted: n - (held == wanted)),
        "You leave one token to compute only where both are equal. Where more is held than wanted, too.",
        LAST,
    ),
    Mistake(
        "nothing-when-equal",
        work(most=lambda n, held, wanted: n if n < len(wanted) else 0),
        "Where all wanted tokens are held you compute all of them. One is enough.",
        LAST,
    ),
    Mistake(
        "at-least-one",
        work(most=lambda n, held, wanted: max(min(n, len(wanted) - 1), min(n, 1))),
        "A single wanted token is reused with you. It has to be computed: 0.",
        LAST,
    ),
    Mistake(
        "two-to-compute",
        work(most=lambda n, held, wanted: max(min(n, len(wanted) - 2), 0)),
        "You leave two tokens to compute. One is enough for logits.",
        LAST,
    ),
    *(
        Mistake(
            f"no-{name}",
            without(name),
            tells,
            SAME,
        )
        for name, tells in (
            ("weights", "The weights do not enter. Another model, or another version of it, has other rows."),
            ("adapter", "The adapter does not enter. It changes keys and values, and nobody notices wrong ones."),
            ("tokenizer", "The tokenizer does not enter. With another one, the same numbers are another text."),
            ("template", "The template does not enter. It is part of what a request is: a field of the identity."),
            ("tenant", "The tenant does not enter. What others have asked must not be seen, not even by its speed."),
            ("positions", "How positions are turned does not enter. Keys that were turned otherwise are others."),
        )
    ),
    Mistake(
        "identity-forgotten",
        work(is_same=lambda held, wanted: True),
        "You compare tokens only. The same tokens have other rows under other weights or another adapter.",
        SAME,
    ),
    Mistake(
        "weights-and-adapter-only",
        without("tokenizer", "template", "tenant", "positions"),
        "You compare weights and adapter only. The other four fields belong to the identity too.",
        SAME,
    ),
    Mistake(
        "base-is-any",
        work(is_same=base_is_any),
        "Rows made without an adapter are used under every adapter with you. They are other rows.",
        SAME,
    ),
    Mistake(
        "any-is-base",
        work(is_same=any_is_base),
        "A request without an adapter takes rows of any adapter with you. None is an answer, not a wildcard.",
        SAME,
    ),
    Mistake(
        "none-never-matches",
        work(is_same=none_of_them),
        "Two requests without an adapter are the same in that. None equals None.",
        SAME,
    ),
    Mistake(
        "version-dropped",
        looked_at(lambda value, name: value.split("@")[0] if name == "weights" else value),
        "You compare the model's name without its version. Other weights have other rows.",
        SAME,
    ),
    Mistake(
        "point-version-dropped",
        looked_at(lambda value, name: value.split(".")[0] if name == "weights" else value),
        "3 and 3.1 are the same to you. Compare the whole text.",
        SAME,
    ),
    Mistake(
        "in-any-case",
        looked_at(lambda value, name: value.lower() if value else value),
        "You take capital letters and small ones for the same. Compare texts as they are.",
        SAME,
    ),
    Mistake(
        "first-word",
        looked_at(lambda value, name: value.split(",")[0] if value else value),
        "You compare positions up to the comma. How they are scaled belongs to it: compare the whole text.",
        SAME,
    ),
    Mistake(
        "family-of-adapters",
        looked_at(lambda value, name: value.split("-")[0] if name == "adapter" and value else value),
        "poet and poet-2 are the same adapter to you. Compare the whole text.",
        SAME,
    ),
    Mistake(
        "values-as-a-set",
        work(is_same=as_set),
        "You compare the values whichever field they stand in. A tenant named like a template is another request.",
        SAME,
    ),
    Mistake(
        "values-as-one-text",
        work(is_same=as_text),
        "You join the values into one text, so that letters may move from one field to the next. Compare field by field.",
        SAME,
    ),
    Mistake(
        "one-may-differ",
        work(is_same=two_may_differ),
        "One field that differs is let pass. Each of them alone makes other rows.",
        SAME,
    ),
    Mistake(
        "none-when-different",
        work(other=None),
        "You return None for another identity. Nothing can be reused: 0.",
        SAME,
    ),
    Mistake(
        "minus-one-when-different",
        work(other=-1),
        "You return -1 for another identity. It is a number of tokens: 0.",
        SAME,
    ),
    Mistake(
        "by-object",
        work(is_same=by_object),
        "`is` asks whether two values are one object. Equal texts of two requests are not: use ==.",
        FRONT,
    ),
    Mistake(
        "tokens-by-object",
        work(alike=tokens_by_object),
        "`is` asks whether two tokens are one object. Large equal numbers are not: use ==.",
        FRONT,
    ),
    Mistake(
        "sixteen-bits",
        work(alike=sixteen_bits),
        "Only 16 bits of a token are compared. Vocabularies are larger: 70005 and 4469 are two tokens.",
        FRONT,
    ),
    Mistake(
        "takes-out-the-last",
        work(alike=takes_out_the_last, most=lambda n, held, wanted: n),
        "You take the last token out of the caller's list. Leave both dicts as they are: count to len - 1.",
        LAST,
    ),
    Mistake(
        "as-texts",
        looked_at(lambda value, name: str(value)),
        "You compare values as texts. None and 'None' are two values: compare them as they are.",
        SAME,
    ),
    Mistake(
        "empty-is-none",
        looked_at(lambda value, name: value or None),
        "An adapter named '' passes for None. Compare values as they are.",
        SAME,
    ),
    Mistake(
        "spaces-stripped",
        looked_at(lambda value, name: value.strip() if value else value),
        "You strip spaces before you compare. Compare values as they are.",
        SAME,
    ),
    Mistake(
        "missing-is-empty",
        with_default(""),
        "A missing field passes for ''. Nothing may equal your default: ask `name in held`.",
        MISSING,
    ),
    Mistake(
        "missing-is-0",
        with_default(0),
        "A missing field passes for 0. Nothing may equal your default: ask `name in held`.",
        MISSING,
    ),
    Mistake(
        "all-fields",
        work(is_same=all_fields),
        "Every field enters. Temperature, seed and stop words change no row: only six fields count.",
        FREE,
    ),
    Mistake(
        "fields-of-both",
        work(is_same=shared_fields),
        "Every field that both have enters. Temperature, seed and stop words change no row.",
        FREE,
    ),
    *(
        Mistake(
            f"{name}-too",
            work(is_same=lambda held, wanted, name=name: same(held, wanted, (*NAMES, name))),
            tells,
            FREE,
        )
        for name, tells in (
            ("temperature", "The temperature enters. It chooses among logits, and changes no row."),
            ("seed", "The seed enters. It draws the next token, and changes no row."),
            ("stop", "Stop words enter. They end an answer, and change no row."),
            ("user", "The user enters. Of who asks, only the tenant belongs to the identity."),
            ("top_p", "top_p enters. It cuts logits off, and changes no row."),
        )
    ),
    Mistake(
        "order-of-fields",
        work(is_same=in_order),
        "You compare fields in the order in which they stand in the dict. Look each one up by its name.",
        FREE,
    ),
    Mistake(
        "missing-is-none",
        work(is_same=with_none),
        "`get` makes None of a field that is missing, so it passes for None. A field that one lacks differs.",
        MISSING,
    ),
    Mistake(
        "fields-of-the-held-one",
        work(is_same=of_the_held),
        "You compare the fields that `held` has. One that only `wanted` has differs too.",
        MISSING,
    ),
    Mistake(
        "fields-of-the-wanted-one",
        work(is_same=of_the_wanted),
        "You compare the fields that `wanted` has. One that only `held` has differs too.",
        MISSING,
    ),
    Mistake(
        "fields-that-both-have",
        work(is_same=of_both),
        "You compare fields that both have. One that only one of them has differs.",
        MISSING,
    ),
    Mistake(
        "must-be-there",
        work(is_same=must_be_there),
        "A field that both lack counts as a difference with you. There they do not differ.",
        MISSING,
    ),
    Mistake(
        "raises-when-missing",
        work(is_same=raises_when_missing),
        "A missing field makes you raise. Where one of them lacks it, the answer is 0.",
        MISSING,
    ),
)


def by_hash(held, wanted):
    """A digest of the identity's fields as JSON, sorted by name."""

    def digest(one):
        fields = {name: one[name] for name in NAMES if name in one}
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    if digest(held) != digest(wanted):
        return 0
    a, b = held["tokens"], wanted["tokens"]
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b[:-1]))))


def by_sentinel(held, wanted):
    nothing = object()
    for name in NAMES:
        if held.get(name, nothing) != wanted.get(name, nothing):
            return 0
    n = 0
    for a, b in zip(held["tokens"], wanted["tokens"][:-1]):
        if a != b:
            break
        n += 1
    return n


def by_sub_dicts(held, wanted):
    """Dicts of the six fields; the longest equal slice, from the longest down."""
    if {k: v for k, v in held.items() if k in NAMES} != {k: v for k, v in wanted.items() if k in NAMES}:
        return 0
    a, b = held["tokens"], wanted["tokens"]
    return max(n for n in range(len(b)) if n <= len(a) and a[:n] == b[:n])


def by_sets(held, wanted):
    """Sets of (name, repr of the value), and os.path.commonprefix, which takes lists too."""
    mine, theirs = ({(name, repr(one[name])) for name in set(NAMES) & set(one)} for one in (held, wanted))
    if mine ^ theirs:
        return 0
    return float(min(len(commonprefix([held["tokens"], wanted["tokens"]])), len(wanted["tokens"]) - 1))


VARIANTS = (
    Variant("a digest", by_hash),
    Variant("a default that nothing equals", by_sentinel),
    Variant("dicts of six fields", by_sub_dicts),
    Variant("sets, and a float", by_sets),
    Variant("a while loop", work()),
)
