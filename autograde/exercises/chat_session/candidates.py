"""Wrong and right ways to hold a conversation. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from autograde.exercise import Mistake, Variant

FIRST, NEXT, EDITS, ALL = "first turn", "next turns", "edits", "all held already"
REFUSALS, TWO, WORK = "refusals", "two sessions", "the work"


class Base:
    """The tokens that the model holds, and the steps of a turn."""

    def __init__(self, model):
        self.model = model
        self.held = []

    def check(self, tokens):
        if not tokens:
            raise ValueError("no tokens")

    def same(self, i, tokens):
        return self.held[i] == tokens[i]

    def common(self, tokens):
        n = 0
        while n < min(len(self.held), len(tokens)) and self.same(n, tokens):
            n += 1
        return n

    def keep(self, common, tokens):
        return min(common, len(tokens) - 1)

    def cut(self, n, tokens):
        self.model.truncate(n)
        del self.held[n:]

    def extend(self, n, tokens):
        return self.model.extend(tokens[n:])

    def note(self, n, tokens):
        self.held = list(tokens)

    def result(self, logits):
        return logits

    def logits(self, tokens):
        self.check(tokens)
        n = self.keep(self.common(tokens), tokens)
        self.cut(n, tokens)
        logits = self.extend(n, tokens)
        self.note(n, tokens)
        return self.result(logits)


# The first turn.


class NothingBack(Base):
    def result(self, logits):
        pass


class BestToken(Base):
    def result(self, logits):
        return int(np.argmax(logits))


class Probabilities(Base):
    def result(self, logits):
        e = np.exp(logits - np.max(logits))
        return e / e.sum()


class LastAlone(Base):
    """Only the newest token is ever pushed."""

    def extend(self, n, tokens):
        return self.model.extend(tokens[-1:])


class WithoutTheLast(Base):
    def extend(self, n, tokens):
        return self.model.extend(tokens[n:-1] or tokens[-1:])


class WithoutTheFirst(Base):
    def extend(self, n, tokens):
        return self.model.extend(tokens[n + 1 :] or tokens[-1:])


class Twice(Base):
    """Once to fill the cache, and once more for the logits."""

    def extend(self, n, tokens):
        self.model.extend(tokens[n:])
        return self.model.extend(tokens[n:])


class LastOnceMore(Base):
    """The whole prompt goes in, and its last token again to get logits, as in a decode loop."""

    def extend(self, n, tokens):
        self.model.extend(tokens[n:])
        return self.model.extend(tokens[-1:])


class FirstLogits(Base):
    """Token by token, and the logits of the first of them are given back."""

    def extend(self, n, tokens):
        return [self.model.extend([token]) for token in tokens[n:]][0]


class Backwards(Base):
    def extend(self, n, tokens):
        return self.model.extend(tokens[n:][::-1])


class EachTokenOnce(Base):
    """A set of tokens: repeated ones are dropped."""

    def extend(self, n, tokens):
        return self.model.extend(list(dict.fromkeys(tokens[n:])))


# Next turns.


class AllBehind(Base):
    """The model gets the whole conversation behind what it holds."""

    def cut(self, n, tokens):
        pass

    def extend(self, n, tokens):
        return self.model.extend(tokens)


class AllAnew(Base):
    def common(self, tokens):
        return 0


class OneTokenATurn(Base):
    """After the first turn only the last token is new."""

    def extend(self, n, tokens):
        return self.model.extend(tokens[n:] if n == 0 else tokens[-1:])


class NewIsHeld(Base):
    """The list has the newest tokens alone, not all that are held."""

    def note(self, n, tokens):
        self.held = list(tokens[n:])


class FirstTurnOnly(Base):
    """The list is written once, and then only cut."""

    def note(self, n, tokens):
        self.held = self.held or list(tokens)


class OneTurnLate(Base):
    def __init__(self, model):
        super().__init__(model)
        self.before = []

    def note(self, n, tokens):
        self.held, self.before = self.before, list(tokens)


class LastHeldAgain(Base):
    """One token that is held is always computed again."""

    def keep(self, common, tokens):
        return max(common - 1, 0)


class OneTokenSkipped(Base):
    def extend(self, n, tokens):
        return self.model.extend(tokens[n + 1 if n else 0 :] or tokens[-1:])


class WholeBlocks(Base):
    """Reuse in blocks of four, as a paged cache shares them."""

    def keep(self, common, tokens):
        return min(common, len(tokens) - 1) // 4 * 4


class LastNotNoted(Base):
    """The token that gave the logits is not entered as held."""

    def note(self, n, tokens):
        self.held = list(tokens[:-1])


class Identity(Base):
    def same(self, i, tokens):
        return self.held[i] is tokens[i]


class StopsAtZero(Base):
    def same(self, i, tokens):
        return bool(tokens[i]) and self.held[i] == tokens[i]


# Edits.


class LengthAlone(Base):
    def common(self, tokens):
        return min(len(self.held), len(tokens))


class NeverCut(Base):
    """What is held behind the common beginning stays in the model."""

    def cut(self, n, tokens):
        del self.held[n:]


class HowManyGo(Base):
    """`truncate` is told how many tokens go."""

    def cut(self, n, tokens):
        if n < len(self.held):
            self.model.truncate(len(self.held) - n)
            del self.held[n:]


class OneTooMany(Base):
    """One token behind the common beginning stays."""

    def cut(self, n, tokens):
        self.model.truncate(min(n + 1, len(self.held)))
        del self.held[n:]


class OneTooFew(Base):
    """One token too many goes, and does not come back."""

    def cut(self, n, tokens):
        self.model.truncate(n if n == len(self.held) else max(n - 1, 0))
        del self.held[n:]


class AnewAtAnEdit(Base):
    """An edit empties the model."""

    def keep(self, common, tokens):
        return min(common, len(tokens) - 1) if len(tokens) <= common or common == len(self.held) else 0


class AnewWhenShorter(Base):
    def keep(self, common, tokens):
        return min(common, len(tokens) - 1) if len(tokens) >= len(self.held) else 0


class WholeTurns(Base):
    """Back to the end of an earlier turn."""

    def __init__(self, model):
        super().__init__(model)
        self.ends = [0]

    def keep(self, common, tokens):
        if common == len(self.held):
            return min(common, len(tokens) - 1)
        return max(end for end in self.ends if end <= min(common, len(tokens) - 1))

    def note(self, n, tokens):
        super().note(n, tokens)
        self.ends = [end for end in self.ends if end <= n] + [len(tokens)]


class OnlyWhenLonger(Base):
    """A shorter conversation is not entered."""

    def note(self, n, tokens):
        if len(tokens) >= len(self.held):
            self.held = list(tokens)

    def cut(self, n, tokens):
        self.model.truncate(n)


class AppendsToTheOld(Base):
    """New tokens are entered behind the old list, which was not cut."""

    def cut(self, n, tokens):
        self.model.truncate(n)

    def note(self, n, tokens):
        self.held = self.held + list(tokens[n:])


class SameAnywhere(Base):
    """Positions with the same token are counted, wherever they are."""

    def common(self, tokens):
        return sum(a == b for a, b in zip(self.held, tokens, strict=False))


class LastDifference(Base):
    """From the last difference on, not from the first."""

    def common(self, tokens):
        both = min(len(self.held), len(tokens))
        return max([i for i in range(both) if self.held[i] != tokens[i]], default=both)


class LastToken(Base):
    """The last token that is held stands where it stood, so all do."""

    def common(self, tokens):
        n = len(self.held)
        return n if 0 < n <= len(tokens) and tokens[n - 1] == self.held[-1] else super().common(tokens)


class FirstToken(Base):
    def common(self, tokens):
        return min(len(self.held), len(tokens)) if self.held[:1] == tokens[:1] else 0


class SameTokensInAnyOrder(Base):
    def common(self, tokens):
        both = min(len(self.held), len(tokens))
        return next((n for n in range(both, 0, -1) if sorted(self.held[:n]) == sorted(tokens[:n])), 0)


class JoinedTokens(Base):
    """The digits of all tokens in one text."""

    def common(self, tokens):
        old, new = ("".join(map(str, some)) for some in (self.held, tokens))
        return len(self.held) if new.startswith(old) else super().common(tokens)


class AsBytes(Base):
    def same(self, i, tokens):
        return self.held[i] % 256 == tokens[i] % 256


class SkipsOneDifference(Base):
    """One differing token in the middle is overlooked when the next ones agree again."""

    def common(self, tokens):
        n = super().common(tokens)
        rest = slice(n + 1, n + 3)
        return len(self.held) if self.held[rest] and self.held[rest] == list(tokens[rest]) else n


# All held already.


class NothingToExtend(Base):
    def keep(self, common, tokens):
        return common


class NoneWhenHeld(Base):
    def logits(self, tokens):
        return None if self.common(tokens) == len(tokens) > 0 else super().logits(tokens)


class LastBehindItself(Base):
    """The last token goes in once more, behind itself."""

    def cut(self, n, tokens):
        super().cut(n + 1 if tokens[: n + 1] == self.held[: n + 1] else n, tokens)


class OldLogits(Base):
    """The logits of the turn before, whatever it was."""

    def logits(self, tokens):
        if self.common(tokens) == len(tokens) > 0:
            return self.last
        self.last = super().logits(tokens)
        return self.last


class HeldFromTheStart(Base):
    """A conversation that is held is computed anew."""

    def keep(self, common, tokens):
        return 0 if common == len(tokens) else common


class TwoAgain(Base):
    def keep(self, common, tokens):
        return common if common < len(tokens) else max(common - 2, 0)


class PrefixNotCut(Base):
    """Cut only where a token differs: not when the end is taken away."""

    def cut(self, n, tokens):
        if len(tokens) >= len(self.held) or self.held[: len(tokens)] != tokens:
            super().cut(n, tokens)


class OneAtLeast(Base):
    """The first token is never computed again."""

    def keep(self, common, tokens):
        return max(min(common, len(tokens) - 1), min(common, 1))


class RememberedByLength(Base):
    """Logits of a conversation that is held are looked up by its length."""

    def __init__(self, model):
        super().__init__(model)
        self.known = {}

    def logits(self, tokens):
        if self.common(tokens) == len(tokens) and len(tokens) in self.known:
            return self.known[len(tokens)]
        return self.known.setdefault(len(tokens), super().logits(tokens))


class Unchanged(Base):
    """A second request for the same tokens is answered, and the last token is forgotten in the list."""

    def note(self, n, tokens):
        self.held = list(tokens[:n]) if n == len(tokens) - 1 and self.again else list(tokens)

    def keep(self, common, tokens):
        self.again = common == len(tokens)
        return super().keep(common, tokens)


# Refusals.


class EmptyGivesNone(Base):
    def logits(self, tokens):
        return super().logits(tokens) if len(tokens) else None


class EmptyGivesZeros(Base):
    def logits(self, tokens):
        return super().logits(tokens) if len(tokens) else np.zeros(7)


class EmptyGivesLast(Base):
    """Nothing new, so the answer of the turn before."""

    def logits(self, tokens):
        if len(tokens):
            self.last = super().logits(tokens)
        return self.last


class EmptyIsIndexError(Base):
    def check(self, tokens):
        tokens[0]


class EmptyClears(Base):
    """An empty conversation empties the model, and is refused afterwards."""

    def check(self, tokens):
        if not tokens:
            self.cut(0, tokens)
        super().check(tokens)


class EmptyForgetsTheList(Base):
    """The list is emptied, and then the conversation is refused."""

    def check(self, tokens):
        if not tokens:
            self.held = []
        super().check(tokens)


class NotedBefore(Base):
    """The list is written before the model has agreed."""

    def extend(self, n, tokens):
        self.held = list(tokens)
        return super().extend(n, tokens)


class ListNotCut(Base):
    """The model is cut, the list only replaced after the model has agreed."""

    def cut(self, n, tokens):
        self.model.truncate(n)


class FullGivesNone(Base):
    def extend(self, n, tokens):
        try:
            return super().extend(n, tokens)
        except ValueError:
            return None


class FullGivesNoneSafely(Base):
    """A refusal is swallowed, and everything else is right."""

    def logits(self, tokens):
        self.check(tokens)
        try:
            return super().logits(tokens)
        except ValueError:
            return None


class FullIsRuntimeError(Base):
    def extend(self, n, tokens):
        try:
            return super().extend(n, tokens)
        except ValueError as error:
            raise RuntimeError("the model is full") from error


class FullDropsTheOldest(Base):
    """The oldest tokens are dropped until the rest fits."""

    def extend(self, n, tokens):
        for first in range(n, len(tokens)):
            try:
                return self.model.extend(tokens[first:])
            except ValueError:
                self.model.truncate(0)
        raise ValueError("no room")


class FullAsManyAsFit(Base):
    """As many tokens as there is room for, and the logits of the last of them."""

    def extend(self, n, tokens):
        for end in range(len(tokens), n, -1):
            try:
                return self.model.extend(tokens[n:end])
            except ValueError:
                pass
        raise ValueError("no room")


class FullForgetsAll(Base):
    """A refusal empties the model."""

    def extend(self, n, tokens):
        try:
            return super().extend(n, tokens)
        except ValueError:
            self.cut(0, tokens)
            raise


class FullForgetsTheList(Base):
    """A refusal empties the list only: the model still holds the common beginning."""

    def extend(self, n, tokens):
        try:
            return super().extend(n, tokens)
        except ValueError:
            self.held = []
            raise


class FullIsTheEnd(Base):
    """After a refusal nothing is answered any more."""

    full = False

    def extend(self, n, tokens):
        if self.full:
            raise ValueError("this conversation is over")
        self.full = True
        logits = super().extend(n, tokens)
        self.full = False
        return logits


# Two sessions, and the work.


class OnTheClass(Base):
    """The list is the class's. A new session empties it."""

    def __init__(self, model):
        self.model = model
        type(self).held = []

    def note(self, n, tokens):
        type(self).held = list(tokens)


class NewestModel:
    """The model is kept on the class: all sessions ask the newest one."""

    def __init__(self, model):
        type(self).session = Base(model)
        self.own = Base(model)

    def logits(self, tokens):
        self.own.model = type(self).session.model
        return self.own.logits(tokens)


class FarEditsAnew(Base):
    """Looks back 40 tokens; an edit before that is a new conversation."""

    def keep(self, common, tokens):
        return 0 if len(self.held) - common > 40 else super().keep(common, tokens)


class LooksAtTheEnd(Base):
    """Where the last eight held tokens are the same, all before them are taken to be."""

    def common(self, tokens):
        held = len(self.held)
        return held if held > 8 and self.held[-8:] == tokens[:held][-8:] else super().common(tokens)


class LongMessagesAnew(Base):
    """More than sixteen new tokens are taken for a new conversation."""

    def keep(self, common, tokens):
        kept = super().keep(common, tokens)
        return 0 if kept == len(self.held) and len(tokens) - kept > 16 else kept


class RemembersSixtyFour(Base):
    """The list has no more than 64 tokens."""

    def note(self, n, tokens):
        self.held = list(tokens[:64])


class AnewNowAndThen(Base):
    """Every twentieth turn is computed from the start, to be safe."""

    turns = 0

    def keep(self, common, tokens):
        self.turns += 1
        return super().keep(common, tokens) if self.turns % 20 else 0


def _m(name, work, tells, killed_by):
    return Mistake(name, work, tells, killed_by)


MISTAKES = (
    _m("nothing-back", NothingBack, "logits() gives back nothing. Return what extend() gave.", FIRST),
    _m("best-token", BestToken, "The best token comes back. The logits are wanted, all of them.", FIRST),
    _m("probabilities", Probabilities, "You return probabilities. Return the logits as the model gave them.", FIRST),
    _m("last-token-alone", LastAlone, "Only the last token goes into the model. All that it does not hold have to.", FIRST),
    _m("without-the-last", WithoutTheLast, "The last token does not go in: these are the logits of the token before it.", FIRST),
    _m("without-the-first", WithoutTheFirst, "The first new token is left out: the slice begins one token too late.", FIRST),
    _m("pushed-twice", Twice, "The new tokens go in twice. extend() fills the cache and gives the logits at once.", FIRST),
    _m("last-once-more", LastOnceMore, "The last token goes in once more to get its logits. extend() has given them already.", FIRST),
    _m("logits-of-the-first", FirstLogits, "You return the logits of the first new token. Those of the last one are wanted.", FIRST),
    _m("backwards", Backwards, "New tokens go in from last to first. Their order makes the text.", FIRST),
    _m("all-behind-what-is-held", AllBehind, "The whole conversation goes in behind what is held. Only the new tokens do.", NEXT),
    _m("everything-anew", AllAnew, "Each turn is computed from its start. Keep what the model holds, and compute what is new.", NEXT),
    _m("one-token-a-turn", OneTokenATurn, "After the first turn you push only the last token. A turn may bring many.", NEXT),
    _m("new-tokens-are-all-that-is-held", NewIsHeld, "Your list has the newest tokens alone. The model holds all that came before, too.", NEXT),
    _m("first-turn-only", FirstTurnOnly, "Your list is written in the first turn only. The model holds more after each turn.", NEXT),
    _m("one-turn-late", OneTurnLate, "You compare with the turn before the last one. The model holds the last one.", NEXT),
    _m("one-held-token-again", LastHeldAgain, "A held token is computed again at each turn. That is needed only where all tokens are held.", NEXT),
    _m("one-token-skipped", OneTokenSkipped, "The first new token of each later turn is left out: the slice begins one token too late.", NEXT),
    _m("whole-blocks", WholeBlocks, "You reuse whole blocks of tokens only. This model can be cut anywhere.", NEXT),
    _m("last-not-noted", LastNotNoted, "The last token does not get into your list. The model holds it: it was computed.", NEXT),
    _m("compared-with-is", Identity, "`is` asks whether it is the same object. Equal numbers need not be: use ==.", NEXT),
    _m("zero-stops", StopsAtZero, "Token 0 counts as false, and your comparison ends there. It is a token like any other.", NEXT),
    _m("each-token-once", EachTokenOnce, "Repeated tokens are dropped. A text may say a token many times.", EDITS),
    _m("length-alone", LengthAlone, "You compare lengths. An edited conversation may be as long: compare the tokens.", EDITS),
    _m("model-never-cut", NeverCut, "The model is never cut: new tokens go in behind those that are no longer said. Call truncate().", EDITS),
    _m("how-many-go", HowManyGo, "truncate() is told how many tokens go. It wants to know how many stay.", EDITS),
    _m("one-too-many-stays", OneTooMany, "The first token that differs stays in the model. Cut to what is the same.", EDITS),
    _m("one-too-many-goes", OneTooFew, "You cut one token more than differs, and do not compute it again.", EDITS),
    _m("anew-at-an-edit", AnewAtAnEdit, "After an edit you begin at the start. What stands before the edit is still right.", EDITS),
    _m("anew-when-shorter", AnewWhenShorter, "A shorter conversation is computed from the start. Its beginning is held.", EDITS),
    _m("back-to-a-turn", WholeTurns, "You go back to the end of an earlier turn. The model can be cut at any token.", EDITS),
    _m("only-when-longer", OnlyWhenLonger, "A shorter conversation does not get into your list. The model holds it, and no longer the old one.", EDITS),
    _m("behind-the-old-list", AppendsToTheOld, "New tokens are entered behind your old list. Cut the list where you cut the model.", EDITS),
    _m("same-anywhere", SameAnywhere, "You count all places with the same token. Only those before the first difference are of use.", EDITS),
    _m("last-difference", LastDifference, "You compute from the last difference on. It is the first one that counts.", EDITS),
    _m("last-token-the-same", LastToken, "You look at the last held token only. A token in the middle may have changed.", EDITS),
    _m("first-token-the-same", FirstToken, "You look at the first token only. Any other may have changed.", EDITS),
    _m("any-order", SameTokensInAnyOrder, "You compare tokens without their order. Swapped tokens are another text.", EDITS),
    _m("joined-tokens", JoinedTokens, "You join tokens into one text: [1, 23] and [12, 3] become the same. Compare the numbers.", EDITS),
    _m("tokens-as-bytes", AsBytes, "You compare tokens modulo 256. 3 and 259 are different tokens.", EDITS),
    _m("one-difference-overlooked", SkipsOneDifference, "A single changed token is overlooked. All rows behind it depend on it.", EDITS),
    _m("remembered-by-length", RememberedByLength, "You look up remembered logits by length. Other tokens may have had the same length.", EDITS),
    _m("nothing-to-extend", NothingToExtend, "When all tokens are held you extend by none. Rows give no logits: compute the last token again.", ALL),
    _m("none-when-held", NoneWhenHeld, "When all tokens are held, None comes back. Compute the last token again to get its logits.", ALL),
    _m("last-behind-itself", LastBehindItself, "The last token goes in behind itself. Cut it off first, then compute it again.", ALL),
    _m("logits-of-the-turn-before", OldLogits, "When all tokens are held, the logits of the turn before come back. It may have ended elsewhere.", ALL),
    _m("held-from-the-start", HeldFromTheStart, "When all tokens are held you compute all of them. The last one is enough.", ALL),
    _m("two-again", TwoAgain, "When all tokens are held you compute two of them. The last one is enough.", ALL),
    _m("prefix-not-cut", PrefixNotCut, "Where the end was taken away you do not cut. Nothing differs, and still tokens have to go.", ALL),
    _m("first-never-again", OneAtLeast, "Your session never computes the first token again. For a conversation of one it has to.", ALL),
    _m("again-and-forgotten", Unchanged, "A token that was computed again is missing in your list. The model holds it.", ALL),
    _m("empty-gives-none", EmptyGivesNone, "Without a token, None comes back. Raise ValueError.", REFUSALS),
    _m("empty-gives-zeros", EmptyGivesZeros, "Without a token, zeros come back. No model said them: raise ValueError.", REFUSALS),
    _m("empty-gives-the-last", EmptyGivesLast, "Without a token, the answer of the turn before comes back. Raise ValueError.", REFUSALS),
    _m("empty-is-another-error", EmptyIsIndexError, "Without a token something else is raised. Ask first, and raise ValueError.", REFUSALS),
    _m("empty-clears-the-model", EmptyClears, "You cut the model and then refuse the empty conversation. Refuse it first.", REFUSALS),
    _m("empty-clears-the-list", EmptyForgetsTheList, "An empty conversation empties your list before it is refused. The model still holds its tokens.", REFUSALS),
    _m("noted-too-early", NotedBefore, "You enter the tokens before extend(). It may refuse, and then your list says what is not held.", REFUSALS),
    _m("list-not-cut", ListNotCut, "You cut the model, not your list. When extend() refuses, the list says what is no longer held.", REFUSALS),
    _m("refusal-swallowed", FullGivesNone, "The model's ValueError is swallowed, and its tokens are entered as held. Let it through.", REFUSALS),
    _m("none-when-full", FullGivesNoneSafely, "When the model is full, None comes back. Let its ValueError through.", REFUSALS),
    _m("full-is-another-error", FullIsRuntimeError, "You turn the model's ValueError into another error. Let it through.", REFUSALS),
    _m("oldest-dropped", FullDropsTheOldest, "When the model is full you drop the oldest tokens. That is another conversation: let it refuse.", REFUSALS),
    _m("as-many-as-fit", FullAsManyAsFit, "When the model is full you push as much as fits. These are the logits of another token.", REFUSALS),
    _m("full-forgets-all", FullForgetsAll, "When the model refuses you empty it. The common beginning is still of use.", REFUSALS),
    _m("full-forgets-the-list", FullForgetsTheList, "When the model refuses you empty your list. The model still holds the common beginning.", REFUSALS),
    _m("full-is-the-end", FullIsTheEnd, "After a refusal your session refuses everything. A shorter conversation fits.", REFUSALS),
    _m("on-the-class", OnTheClass, "The list of tokens is the class's, so all sessions share it. Keep it in self.", TWO),
    _m("newest-model", NewestModel, "All sessions ask the newest model. Each has its own: keep it in self.", TWO),
    _m("far-edits-anew", FarEditsAnew, "An edit far back makes you begin at the start. What stands before it is still right.", WORK),
    _m("looks-at-the-end", LooksAtTheEnd, "You look at the last few held tokens only. One far before them may have changed: compare all.", WORK),
    _m("long-messages-anew", LongMessagesAnew, "After a long message you begin at the start. What is held is still right.", WORK),
    _m("sixty-four-remembered", RemembersSixtyFour, "Your list has the first 64 tokens only. The model holds all of them.", WORK),
    _m("anew-now-and-then", AnewNowAndThen, "Now and then you compute everything anew. The rows are right as long as the tokens are the same.", WORK),
)  # fmt: skip


class TokenByToken:
    """One call of the model for each new token, noted one by one. Cut only where it must be."""

    def __init__(self, model):
        self.model, self.held = model, []

    def logits(self, tokens):
        if len(tokens) == 0:
            raise ValueError("nothing was said")
        n = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(self.held, tokens[:-1], strict=False))))
        while len(self.held) > n:
            self.held.pop()
        if self.model.length() > n:
            self.model.truncate(n)
        for token in tokens[n:]:
            logits = self.model.extend([token])
            self.held.append(token)
        return logits


class Arrays:
    """Tokens as an array, compared at once."""

    def __init__(self, model):
        self.model, self.tokens = model, np.zeros(0, dtype=int)

    def logits(self, tokens):
        new = np.asarray(tokens, dtype=int)
        if new.size == 0:
            raise ValueError("no tokens")
        both = min(self.tokens.size, new.size - 1)
        differ = np.flatnonzero(self.tokens[:both] != new[:both])
        n = int(differ[0]) if differ.size else both
        self.model.truncate(n)
        self.tokens = self.tokens[:n]
        out = self.model.extend(new[n:])
        self.tokens = new.copy()
        return list(out)


class Prefixes:
    """A set of all beginnings that are held."""

    def __init__(self, model):
        self.model, self.beginnings = model, {()}

    def logits(self, tokens):
        tokens = tuple(tokens)
        if not tokens:
            raise ValueError("no tokens")
        n = next(n for n in range(len(tokens) - 1, -1, -1) if tokens[:n] in self.beginnings)
        self.model.truncate(n)
        self.beginnings = {tokens[:i] for i in range(n + 1)}
        logits = self.model.extend(list(tokens[n:]))
        self.beginnings |= {tokens[:i] for i in range(n, len(tokens) + 1)}
        return logits


class Tree:
    """A tree of tokens with one path, cut where another branch begins."""

    def __init__(self, model):
        self.model, self.root = model, {}

    def logits(self, tokens):
        if not tokens:
            raise ValueError("no tokens")
        node, n = self.root, 0
        while n < len(tokens) - 1 and tokens[n] in node:
            node, n = node[tokens[n]], n + 1
        node.clear()
        self.model.truncate(n)
        logits = self.model.extend(tokens[n:])
        for token in tokens[n:]:
            node = node.setdefault(token, {})
        return logits


class LogitsKept:
    """Whoever asks for the same conversation again gets the logits that were kept."""

    def __init__(self, model):
        self.model, self.held, self.kept = model, [], None

    def logits(self, tokens):
        tokens = [int(token) for token in tokens]
        if not tokens:
            raise ValueError("no tokens")
        if tokens != self.held:
            n = 0
            for old, new in zip(self.held, tokens[:-1], strict=False):
                if old != new:
                    break
                n += 1
            self.held = self.held[:n]
            self.model.truncate(n)
            self.kept = self.model.extend(tokens[n:])
            self.held = tokens
        return np.array(self.kept, dtype=np.float32)


def halving(model):
    """Two functions in place of a class. The common beginning is found by halving; the model says if it has refused."""
    held = []

    def common(tokens):
        low, high = 0, min(len(held), len(tokens) - 1, model.length())
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if held[:middle] == list(tokens[:middle]) else (low, middle - 1)
        return low

    class Session:
        def logits(self, tokens):
            if not len(tokens):
                raise ValueError("no tokens")
            n = common(tokens)
            if n != model.length():
                model.truncate(n)
            held[:] = tokens  # what the model does not hold is not looked at: its length comes first
            for i in range(n, len(tokens), 4):
                logits = model.extend(tokens[i : i + 4])
            return logits

    return Session()


VARIANTS = (
    Variant("token by token", TokenByToken),
    Variant("arrays", Arrays),
    Variant("a set of beginnings", Prefixes),
    Variant("a tree", Tree),
    Variant("logits kept", LogitsKept),
    Variant("halving, four tokens at a time", halving),
    Variant("in steps", Base),
)
