"""Wrong and right ways to compare two runs. Most mistakes are `Base` with one part changed."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch

ALIKE, TOKEN, ANYWHERE, NAN, WORK = "both alike", "another token", "anywhere", "not a number", "the work"


class Base:
    """The comparison, in pieces."""

    def begin(self, model, prompt):
        model.start()

    def right(self, model, text):
        return model.full(text)[-1]

    def got(self, model, text, new):
        return model.cached(new)[-1]

    def next(self, right, got):
        return int(right.argmax())

    def after(self, text, best, other):
        return text + [best], [best]

    def difference(self, right, got):
        return float((right - got).abs().max())

    def same(self, right, got):
        return not (right + got).isnan().any() and int(right.argmax()) == int(got.argmax())

    def widest(self, largest, difference):
        return max(largest, math.inf if math.isnan(difference) else difference)

    def report(self, sames, largest):
        first = sames.index(False) if False in sames else None
        return {"same": sum(sames), "first": first, "largest": largest}

    def steps(self, steps):
        return range(steps)

    def goes_on(self, sames):
        return True

    def __call__(self, model, prompt, steps):
        self.begin(model, prompt)
        text, new, sames, largest = list(prompt), list(prompt), [], 0.0
        for _ in self.steps(steps):
            right, got = self.right(model, text), self.got(model, text, new)
            largest = self.widest(largest, self.difference(right, got))
            sames.append(self.same(right, got))
            if not self.goes_on(sames):
                break
            text, new = self.after(text, self.next(right, got), int(got.argmax()))
        return self.report(sames, largest)


def changed(**parts):
    return type("Changed", (Base,), {name: (lambda self, *args, _f=f: _f(*args)) for name, f in parts.items()})()


def ranked(places):
    """The best tokens, so many of them, have to be the same in the same order."""

    def same(right, got):
        best, other = (row.topk(places).indices.tolist() for row in (right, got))
        return not (right + got).isnan().any() and best == other

    return changed(same=same)


class EachItsOwn(Base):
    """Two greedy runs, one after the other, each on its own tokens."""

    def __call__(self, model, prompt, steps):
        model.start()
        text, new, largest, sames = list(prompt), list(prompt), 0.0, []
        for _ in range(steps):
            right, got = model.full(text)[-1], model.cached(new)[-1]
            largest = self.widest(largest, self.difference(right, got))
            sames.append(self.same(right, got))
            text, new = text + [int(right.argmax())], [int(got.argmax())]
        return self.report(sames, largest)


class FollowsTheCache(Base):
    def next(self, right, got):
        return int(got.argmax())


class PromptAgain(Base):
    """The cache gets the whole text at every step, on top of what it holds."""

    def got(self, model, text, new):
        return model.cached(text)[-1]


class StartsAnew(Base):
    """The cache is emptied and filled again at every step."""

    def got(self, model, text, new):
        model.start()
        return model.cached(text)[-1]


class NewTokenTwice(Base):
    def after(self, text, best, other):
        return text + [best], [best, best]


class OneTokenLate(Base):
    """The cache gets the token that it got before once more."""

    def __init__(self):
        self.before = None

    def after(self, text, best, other):
        return text + [best], [text[-1]]


class LastLogits(Base):
    """Only the last step's difference is kept."""

    def widest(self, largest, difference):
        return difference


class FirstLogits(Base):
    def widest(self, largest, difference):
        return largest or difference


class Mean(Base):
    def difference(self, right, got):
        return float((right - got).abs().mean())


class MeanOfSteps(Base):
    def __call__(self, model, prompt, steps):
        self.all = []
        found = super().__call__(model, prompt, steps)
        return found | {"largest": sum(self.all) / len(self.all)}

    def widest(self, largest, difference):
        self.all.append(math.inf if math.isnan(difference) else difference)
        return difference


class LastDiffering(Base):
    def report(self, sames, largest):
        differing = [i for i, same in enumerate(sames) if not same]
        return {"same": sum(sames), "first": differing[-1] if differing else None, "largest": largest}


class UntilFirst(Base):
    """Steps before the first one that differs."""

    def report(self, sames, largest):
        found = super().report(sames, largest)
        return found | {"same": len(sames) if found["first"] is None else found["first"]}


class StopsAtFirst(Base):
    def goes_on(self, sames):
        return sames[-1]


class CountsDiffering(Base):
    def report(self, sames, largest):
        return super().report(sames, largest) | {"same": len(sames) - sum(sames)}


class FromOne(Base):
    def report(self, sames, largest):
        found = super().report(sames, largest)
        return found | {"first": None if found["first"] is None else found["first"] + 1}


class Falsy(Base):
    def report(self, sames, largest):
        found = super().report(sames, largest)
        return found | {"first": found["first"] or None}


class MinusOne(Base):
    def report(self, sames, largest):
        found = super().report(sames, largest)
        return found | {"first": -1 if found["first"] is None else found["first"]}


class AsSteps(Base):
    def report(self, sames, largest):
        found = super().report(sames, largest)
        return found | {"first": len(sames) if found["first"] is None else found["first"]}


class Share(Base):
    def report(self, sames, largest):
        return super().report(sames, largest) | {"same": sum(sames) / len(sames) / 2}


class AllOrNothing(Base):
    def report(self, sames, largest):
        return super().report(sames, largest) | {"same": len(sames) if all(sames) else 0}


class Triple(Base):
    def report(self, sames, largest):
        return tuple(super().report(sames, largest).values())


class Text(Base):
    """The position in the text, not the number of the step."""

    def __call__(self, model, prompt, steps):
        found = super().__call__(model, prompt, steps)
        return found | {"first": None if found["first"] is None else found["first"] + len(prompt)}


class OneStepMore(Base):
    def steps(self, steps):
        return range(steps + 1)


class OneStepFewer(Base):
    def steps(self, steps):
        return range(max(steps - 1, 1))


class FirstRow(Base):
    def right(self, model, text):
        return model.full(text)[0]


class FirstCachedRow(Base):
    def got(self, model, text, new):
        return model.cached(new)[0]


class OnlyTheBest(Base):
    """The logit of the chosen token only."""

    def difference(self, right, got):
        best = int(right.argmax())
        return abs(float(right[best] - got[best]))


class BestOfEach(Base):
    def difference(self, right, got):
        return abs(float(right.max() - got.max()))


class LogitsAreClose(Base):
    """A step counts as the same when all its logits are close."""

    def same(self, right, got):
        return bool(torch.allclose(right, got, atol=1e-3))


class PromptTokenByToken(Base):
    """Each token of the prompt alone."""

    def got(self, model, text, new):
        return [model.cached([token])[-1] for token in new][-1]


class FullOnNewOnly(Base):
    def right(self, model, text):
        return model.full(text[-1:])[-1]


class FullTwice(Base):
    """The best token and the logits are asked for separately."""

    def next(self, right, got):
        return int(self.model.full(self.text)[-1].argmax())

    def right(self, model, text):
        self.model, self.text = model, text
        return model.full(text)[-1]


class AppendsToThePrompt(Base):
    """Greedy tokens of the step before: the text is one token behind."""

    def after(self, text, best, other):
        self.last = getattr(self, "last", None)
        return text, [best]


def _m(name, work, tells, killed_by):
    return Mistake(name, work, tells, killed_by)


MISTAKES = (
    _m("each-on-its-own-tokens", EachItsOwn(), "Each arm goes on with its own token. After one difference they compare different texts: feed both the full run's.", TOKEN),
    _m("follows-the-cache", FollowsTheCache(), "Both go on with the cached arm's token. The run without a cache is what is right: follow that.", TOKEN),
    _m("whole-text-into-the-cache", PromptAgain(), "The cache gets the whole text at every step, behind what it holds. Give it the new token alone.", ALIKE),
    _m("cache-emptied-every-step", StartsAnew(), "You empty the cache and fill it again at every step: that is recomputation, and tests no cache.", WORK),
    _m("new-token-twice", NewTokenTwice(), "The cache gets each new token twice.", ALIKE),
    _m("one-token-late", OneTokenLate(), "The cache gets the token of the step before, not the newest one.", ALIKE),
    _m("not-started", changed(begin=lambda model, prompt: None), "The cache holds what somebody left in it. Call start() first.", ALIKE),
    _m("full-arm-sees-new-only", FullOnNewOnly(), "The arm without a cache gets one token. It remembers nothing: give it the whole text.", ALIKE),
    _m("text-never-grows", AppendsToThePrompt(), "The arm without a cache gets the prompt at every step. Its text grows by a token each time.", ALIKE),
    _m("first-row", FirstRow(), "You take the logits of the first token. The next token comes from those of the last, [-1].", ALIKE),
    _m("first-cached-row", FirstCachedRow(), "Of the cached logits you take the first row. After the prompt there are many: take the last, [-1].", ALIKE),
    _m("a-triple", Triple(), "Return a dict with the names same, first and largest.", ALIKE),
    _m("share", Share(), "same is a count of steps, not a share.", ALIKE),
    _m("counts-what-differs", CountsDiffering(), "same counts the steps that differ. Count those that are the same.", ALIKE),
    _m("minus-one-for-none", MinusOne(), "first is None where no step differs, not -1.", ALIKE),
    _m("steps-for-none", AsSteps(), "first is None where no step differs, not the number of steps.", ALIKE),
    _m("mean-logit", Mean(), "You take the mean over the logits, in which one wrong logit drowns. Take the largest.", TOKEN),
    _m("mean-of-steps", MeanOfSteps(), "You take the mean over the steps. Take the largest of all.", ALIKE),
    _m("last-step-only", LastLogits(), "largest is that of the last step. Keep the largest of all steps.", TOKEN),
    _m("first-step-only", FirstLogits(), "largest is that of the first step that differs. Keep the largest of all steps.", ALIKE),
    _m("one-step-more", OneStepMore(), "You compare one step too many: the first one is the one that the prompt ends with.", ALIKE),
    _m("one-step-fewer", OneStepFewer(), "You compare one step too few: the one that the prompt ends with counts too.", ALIKE),
    _m("relative", changed(difference=lambda r, g: float(((r - g).abs() / (r.abs() + 1e-9)).max())), "largest is an absolute difference, not a relative one.", ALIKE),
    _m("squared", changed(difference=lambda r, g: float(((r - g) ** 2).max())), "You square the differences. Take their size.", ALIKE),
    _m("summed", changed(difference=lambda r, g: float((r - g).abs().sum())), "You add up the differences of all logits. Take the largest.", ALIKE),
    _m("probabilities", changed(difference=lambda r, g: float((r.softmax(-1) - g.softmax(-1)).abs().max())), "You compare probabilities. Logits are asked for: a shift of all of them is a difference too.", ALIKE),
    _m("rounded", changed(widest=lambda largest, d: max(largest, math.inf if math.isnan(d) else round(d, 1))), "You round the difference. Report it as it is.", ALIKE),
    _m("from-one", FromOne(), "You number the steps from 1. The first one is 0.", TOKEN),
    _m("position-in-the-text", Text(), "first is a position in the text. It is the number of the step, from 0.", TOKEN),
    _m("last-that-differs", LastDiffering(), "first is the last step that differs. Give the first.", TOKEN),
    _m("zero-is-none", Falsy(), "`first or None`: step 0 is a step too, and 0 counts as false. Ask `is None`.", TOKEN),
    _m("until-the-first", UntilFirst(), "same counts up to the first difference. Later steps can be the same again, since both go on with the same tokens.", TOKEN),
    _m("stops-at-the-first", StopsAtFirst(), "You stop at the first difference. Go on: both get the full run's token.", TOKEN),
    _m("all-or-nothing", AllOrNothing(), "same is 0 as soon as one step differs. Count the steps.", TOKEN),
    _m("two-best", changed(same=lambda r, g: int(r.argmax()) in g.topk(2).indices.tolist()), "A token among the best two counts as the same with you. Compare the best one.", TOKEN),
    _m("best-logits-compared", BestOfEach(), "You compare the two best logits, whichever tokens they are of. Compare token by token.", TOKEN),
    _m("close-is-same", LogitsAreClose(), "A step counts as the same when the logits are close. Compare the best tokens; `largest` tells the rest.", ALIKE),
    _m("best-token-only", OnlyTheBest(), "You look at the chosen token's logit alone. Any other may be far off: take the largest of all.", ANYWHERE),
    _m("all-in-order", ranked(11), "A step counts as different when any two logits change places. Compare the best token alone.", ANYWHERE),
    _m("second-best-too", ranked(2), "A step counts as different when the second best token differs. Compare the best one alone.", ANYWHERE),
    _m("signed", changed(difference=lambda r, g: float((g - r).max())), "You take the largest signed difference. What is too small counts as well: use abs().", ANYWHERE),
    _m("signed-the-other-way", changed(difference=lambda r, g: float((r - g).max())), "You take the largest signed difference. What is too large counts as well: use abs().", ALIKE),
    _m("abs-after-max", changed(difference=lambda r, g: abs(float((r - g).max()))), "abs() comes after max(): what is too large is missed. Take abs() of each first.", TOKEN),
    _m("median", changed(difference=lambda r, g: float((r - g).abs().median())), "You take the median, in which one wrong logit does not show. Take the largest.", TOKEN),
    _m("nan-slips-through", changed(widest=lambda largest, d: d if d > largest else largest), "A NaN is larger than nothing: `d > largest` is False and it slips through. Make it infinite.", NAN),
    _m("nan-made-zero", changed(difference=lambda r, g: float((r - g).nan_to_num(0).abs().max())), "You turn NaN into 0, so that it counts as equal. It is the worst difference there is: infinite.", NAN),
    _m("nan-left-as-it-is", changed(widest=lambda largest, d: d if math.isnan(d) or d > largest else largest), "largest is NaN, and the next comparison loses it. Report infinity.", NAN),
    _m("nan-at-the-best", changed(same=lambda r, g: int(r.argmax()) == int(g.argmax())), "argmax takes a NaN for the best one, and it can stand just there. A step with a NaN differs.", NAN),
    _m("nan-in-the-cache-only", changed(same=lambda r, g: not g.isnan().any() and int(r.argmax()) == int(g.argmax())), "You look for NaN in the cached logits only. One in the full run makes the step differ as well.", NAN),
    _m("as-a-large-number", changed(widest=lambda largest, d: max(largest, 1e9 if math.isnan(d) else d)), "A NaN becomes a large number. A real difference could be as large: make it infinite.", NAN),
    _m("full-asked-twice", FullTwice(), "You run the model without a cache twice at each step. Keep its logits.", WORK),
)  # fmt: skip


def two_lists(model, prompt, steps):
    """The full run first, then the cached one on its tokens."""
    rows, text = [], list(prompt)
    for _ in range(steps):
        row = model.full(text)[-1]
        rows.append(row)
        text = [*text, int(torch.argmax(row))]
    model.start()
    others = [model.cached(list(prompt))[-1]]
    for token in text[len(prompt) : len(prompt) + steps - 1]:
        others.append(model.cached([token])[-1])
    a, b = torch.stack(rows), torch.stack(others)
    off = (a - b).abs()
    same = (a.argmax(-1) == b.argmax(-1)) & ~off.isnan().any(-1)
    largest = float("inf") if off.isnan().any() else off.max().item()
    wrong = (~same).nonzero().flatten().tolist()
    return {"largest": largest, "first": wrong[0] if wrong else None, "same": int(same.sum())}


def in_numpy(model, prompt, steps):
    import numpy as np

    model.start()
    text, new, first, same, most = tuple(prompt), tuple(prompt), None, 0, 0.0
    for step in range(steps):
        a, b = (np.asarray(x) for x in (model.full(text)[-1], model.cached(new)[-1]))
        d = np.max(np.abs(a - b))
        most = np.inf if np.isnan(d) else max(most, d)
        if np.argmax(a) == np.argmax(b) and not np.isnan(d):
            same += 1
        elif first is None:
            first = step
        new = (int(np.argmax(a)),)
        text += new
    return {"same": same, "first": first, "largest": most}


def cached_first(model, prompt, steps):
    """The cached arm is asked first in each step; a tensor for largest."""
    model.start()
    text, same, first, off = list(prompt), 0, None, []
    for step in range(steps):
        got = model.cached(text if step == 0 else text[-1:])[-1]
        right = model.full(text)[-1]
        off.append(torch.nan_to_num((right - got).abs(), nan=math.inf).max())
        if right.argmax() == got.argmax() and not (right + got).isnan().any():
            same += 1
        else:
            first = step if first is None else first
        text.append(right.argmax().item())
    return dict(same=same, first=first, largest=torch.stack(off).max(), steps=steps)


VARIANTS = (
    Variant("two-lists", two_lists),
    Variant("in-numpy", in_numpy),
    Variant("cached-first", cached_first),
    Variant("prompt-token-by-token", PromptTokenByToken()),
    Variant("in-pieces", Base()),
)
