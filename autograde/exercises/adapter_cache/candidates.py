"""Wrong and right ways to keep caches apart by adapter. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant

PREFIXES, WHOSE, ANEW = "prefixes", "whose rows", "uploaded anew"
KNOWN, NEAR, TWO, TEXTS = "known already", "near misses", "two servers", "near names"


class Base:
    """KVs by whose they are and by their tokens."""

    def __init__(self, server):
        self.server = server
        self.kvs = {}

    def whose(self, adapter):
        return adapter, self.server.version(adapter)

    def key(self, tokens):
        return tuple(tokens)

    def made(self, adapter):
        return self.kvs.setdefault(self.whose(adapter), {})

    def lengths(self, tokens):
        return range(len(tokens), 0, -1)

    def find(self, adapter, tokens):
        """How many leading tokens are there, and their KV."""
        made = self.made(adapter)
        for n in self.lengths(tokens):
            if self.key(tokens[:n]) in made:
                return n, made[self.key(tokens[:n])]
        return 0, None

    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens[n:], kv)

    def keep(self, adapter, tokens, kv):
        self.made(adapter)[self.key(tokens)] = kv

    def logits(self, adapter, kv):
        return self.server.logits(adapter, kv)

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        if n < len(tokens):
            kv = self.compute(adapter, tokens, n, kv)
            self.keep(adapter, tokens, kv)
        return self.logits(adapter, kv)


# Prefixes.


class NothingKept(Base):
    def keep(self, adapter, tokens, kv):
        pass


class AllTokensAgain(Base):
    """The found KV is passed on, and all tokens go behind it."""

    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens, kv)


class NothingBefore(Base):
    """Only the new tokens are computed, behind nothing."""

    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens[n:], None)


class OneTokenShort(Base):
    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens[n + 1 :] or tokens[-1:], kv)


class OneTokenTwice(Base):
    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens[max(n - 1, 0) :], kv)


class NewTokensAsKey(Base):
    """What was computed is entered under the new tokens, and not under all of them."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        if n < len(tokens):
            kv = self.compute(adapter, tokens, n, kv)
            self.keep(adapter, tokens[n:], kv)
        return self.logits(adapter, kv)


class ShortestFirst(Base):
    def lengths(self, tokens):
        return range(1, len(tokens) + 1)


class WholePromptOnly(Base):
    """Found is only what is exactly this prompt."""

    def lengths(self, tokens):
        return [len(tokens)]


class OneTokenMoreOnly(Base):
    """Found is only a prompt that was one token shorter."""

    def lengths(self, tokens):
        return [n for n in (len(tokens), len(tokens) - 1) if n > 0]


class NewestOnly(Base):
    """Of each adapter only the newest KV is kept."""

    def keep(self, adapter, tokens, kv):
        self.made(adapter).clear()
        super().keep(adapter, tokens, kv)


class Moved(Base):
    """A KV that is continued is no longer there for others."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        if 0 < n < len(tokens):
            del self.made(adapter)[self.key(tokens[:n])]
        if n < len(tokens):
            kv = self.compute(adapter, tokens, n, kv)
            self.keep(adapter, tokens, kv)
        return self.logits(adapter, kv)


class FirstOnly(Base):
    """Only prompts that were computed from their start are kept."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        if n < len(tokens):
            kv = self.compute(adapter, tokens, n, kv)
            if n == 0:
                self.keep(adapter, tokens, kv)
        return self.logits(adapter, kv)


class ZeroIsNone(Base):
    """KV 0 is taken for none."""

    def compute(self, adapter, tokens, n, kv):
        return self.server.compute(adapter, tokens[n:], kv or None)


class ZeroIsNotFound(Base):
    def find(self, adapter, tokens):
        made = self.made(adapter)
        for n in self.lengths(tokens):
            if made.get(self.key(tokens[:n])):
                return n, made[self.key(tokens[:n])]
        return 0, None


class TokenByToken(Base):
    """A call for each token."""

    def compute(self, adapter, tokens, n, kv):
        for i in range(n, len(tokens)):
            kv = self.server.compute(adapter, tokens[i : i + 1], kv)
        return kv


class PrefixFirst(Base):
    """All but the last token in one call, the last one in another, as prefill and decode."""

    def compute(self, adapter, tokens, n, kv):
        if n < len(tokens) - 1:
            kv = self.server.compute(adapter, tokens[n:-1], kv)
        return self.server.compute(adapter, tokens[-1:], kv)


class GivesTheKV(Base):
    def logits(self, adapter, kv):
        return kv


class LogitsOfThePrefix(Base):
    """Logits are asked of the KV that was found."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        found = kv
        if n < len(tokens):
            kv = self.compute(adapter, tokens, n, kv)
            self.keep(adapter, tokens, kv)
        return self.logits(adapter, kv if found is None else found)


# Whose rows.


class OneForAll(Base):
    def whose(self, adapter):
        return ""


class VersionAlone(Base):
    def whose(self, adapter):
        return self.server.version(adapter)


class BaseForAll(Base):
    """What the model without an adapter made is used under every adapter that has nothing itself."""

    def find(self, adapter, tokens):
        n, kv = super().find(adapter, tokens)
        return (n, kv) if n or not adapter else super().find("", tokens)


class LongestOfBase(Base):
    """The base model's KV is taken where it is the longer one."""

    def find(self, adapter, tokens):
        return max(super().find(adapter, tokens), super().find("", tokens), key=lambda found: found[0])


class AnyForBase(Base):
    """Without an adapter, every adapter's KVs are looked through."""

    def find(self, adapter, tokens):
        found = [super().find(adapter, tokens)]
        if not adapter:
            found += [super(AnyForBase, self).find(other, tokens) for other, _ in list(self.kvs)]
        return max(found, key=lambda pair: pair[0])


class BaseNotKept(Base):
    """The model without an adapter counts as nobody: `if adapter`."""

    def keep(self, adapter, tokens, kv):
        if adapter:
            super().keep(adapter, tokens, kv)


class OnlyBaseKept(Base):
    def keep(self, adapter, tokens, kv):
        if not adapter:
            super().keep(adapter, tokens, kv)


class ComputedByBase(Base):
    """The base model computes all rows, and the adapter only makes logits."""

    def whose(self, adapter):
        return "", self.server.version("")

    def compute(self, adapter, tokens, n, kv):
        return self.server.compute("", tokens[n:], kv)


class LogitsOfBase(Base):
    def logits(self, adapter, kv):
        return self.server.logits("", kv)


class OneAdapterAtATime(Base):
    """Another adapter than the last one, and all is forgotten."""

    last = None

    def answer(self, adapter, tokens):
        if adapter != self.last:
            self.kvs.clear()
        self.last = adapter
        return super().answer(adapter, tokens)


class FirstWord(Base):
    """Adapters of one family count as one."""

    def whose(self, adapter):
        return adapter.split("-")[0], self.server.version(adapter)


class JoinedNames(Base):
    """Whose it is and which tokens, in one text with nothing between them."""

    def whose(self, adapter):
        return "".join(sorted(adapter + self.server.version(adapter)))


class Colon(Base):
    def whose(self, adapter):
        return f"{adapter}:{self.server.version(adapter)}"


class Slash(Base):
    def whose(self, adapter):
        return f"{adapter}/{self.server.version(adapter)}"


class NothingBetween(Base):
    def whose(self, adapter):
        return adapter + self.server.version(adapter)


class SetOfBoth(Base):
    def whose(self, adapter):
        return frozenset((adapter, self.server.version(adapter)))


class NamesInAnyCase(Base):
    def whose(self, adapter):
        return adapter.lower(), self.server.version(adapter)


class VersionsInAnyCase(Base):
    def whose(self, adapter):
        return adapter, self.server.version(adapter).lower()


class NumberOfTheVersion(Base):
    """Only the digits of a version."""

    def whose(self, adapter):
        return adapter, "".join(letter for letter in self.server.version(adapter) if letter.isdigit())


class MajorVersion(Base):
    def whose(self, adapter):
        return adapter, self.server.version(adapter).split(".")[0]


class LargestVersion(Base):
    """The version that comes last in the alphabet is taken for the newest."""

    def whose(self, adapter):
        self.newest = getattr(self, "newest", {})
        self.newest[adapter] = max(self.newest.get(adapter, ""), self.server.version(adapter))
        return adapter, self.newest[adapter]


class SixteenBits(Base):
    def key(self, tokens):
        return tuple(token % 65536 for token in tokens)


class SixtyFour(Base):
    """Only the newest 64 KVs of an adapter stay."""

    def keep(self, adapter, tokens, kv):
        super().keep(adapter, tokens, kv)
        made = self.made(adapter)
        while len(made) > 64:
            made.pop(next(iter(made)))


class SixteenBack(Base):
    """Looks for prefixes that are at most 16 tokens shorter."""

    def lengths(self, tokens):
        return range(len(tokens), max(len(tokens) - 17, 0), -1)


class KeepsTheList(Base):
    """The caller's own list is kept, and grows with the conversation."""

    def find(self, adapter, tokens):
        fitting = [(len(held), kv) for held, kv in self.made(adapter).values() if held == tokens[: len(held)]]
        return max(fitting, default=(0, None), key=lambda found: found[0])

    def keep(self, adapter, tokens, kv):
        made = self.made(adapter)
        made[len(made)] = tokens, kv


class TakesTokensOut(Base):
    """What is found is taken out of the caller's list."""

    def answer(self, adapter, tokens):
        whole = list(tokens)
        n, kv = self.find(adapter, whole)
        del tokens[:n]
        if tokens:
            kv = self.server.compute(adapter, tokens, kv)
            self.keep(adapter, whole, kv)
        return self.logits(adapter, kv)


class FirstMaker(Base):
    """What one adapter has made under some tokens stays its own: the next one finds it, and keeps to it."""

    def find(self, adapter, tokens):
        for n in self.lengths(tokens):
            for made in self.kvs.values():
                if self.key(tokens[:n]) in made and n < len(tokens):
                    return n, made[self.key(tokens[:n])]
        return super().find(adapter, tokens)


class LengthOfWeights(Base):
    """Adapters by the length of their names."""

    def whose(self, adapter):
        return len(adapter), self.server.version(adapter)


# Uploaded anew.


class NameAlone(Base):
    def whose(self, adapter):
        return adapter


class VersionOnce(Base):
    """The version is asked once for each adapter."""

    def __init__(self, server):
        super().__init__(server)
        self.versions = {}

    def whose(self, adapter):
        if adapter not in self.versions:
            self.versions[adapter] = self.server.version(adapter)
        return adapter, self.versions[adapter]


class VersionOfBase(Base):
    def whose(self, adapter):
        return adapter, self.server.version("")


class BaseNeverChanges(Base):
    def whose(self, adapter):
        return adapter, self.server.version(adapter) if adapter else ""


class OneUpload(Base):
    """Only a first upload is noticed: what comes after it counts as one version."""

    def whose(self, adapter):
        return adapter, self.server.version(adapter) == "v1"


class AllForgotten(Base):
    """An upload of one adapter throws everything away."""

    def __init__(self, server):
        super().__init__(server)
        self.versions = {}

    def answer(self, adapter, tokens):
        version = self.server.version(adapter)
        if self.versions.get(adapter, version) != version:
            self.kvs.clear()
        self.versions[adapter] = version
        return super().answer(adapter, tokens)


class CheckedWhenWhole(Base):
    """The version is compared for whole prompts only; prefixes are found by name."""

    def find(self, adapter, tokens):
        for n in self.lengths(tokens):
            for (name, version), made in self.kvs.items():
                mine = name == adapter and (n < len(tokens) or version == self.server.version(adapter))
                if mine and self.key(tokens[:n]) in made:
                    return n, made[self.key(tokens[:n])]
        return 0, None


class VersionAfterwards(Base):
    """KVs are looked for by name, and kept by name; a new version only clears them after it has answered."""

    def __init__(self, server):
        super().__init__(server)
        self.versions = {}

    def whose(self, adapter):
        return adapter

    def answer(self, adapter, tokens):
        got = super().answer(adapter, tokens)
        version = self.server.version(adapter)
        if self.versions.get(adapter, version) != version:
            self.kvs.pop(adapter, None)
        self.versions[adapter] = version
        return got


class NewVersionNotKept(Base):
    """Where a version is not the first, nothing is kept."""

    def keep(self, adapter, tokens, kv):
        if self.server.version(adapter) == "v1":
            super().keep(adapter, tokens, kv)


# Known already.


class NeverWhole(Base):
    """Only shorter prompts are looked for: a known one has its tail computed again."""

    def lengths(self, tokens):
        return range(len(tokens) - 1, 0, -1)


class LastTokenAgain(Base):
    """A known prompt has its last token computed again, behind all of them."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        if n == len(tokens):
            return self.logits(adapter, self.server.compute(adapter, tokens[-1:], kv))
        return super().answer(adapter, tokens)


class EmptyCall(Base):
    """A known prompt is computed with no tokens."""

    def answer(self, adapter, tokens):
        n, kv = self.find(adapter, tokens)
        kv = self.compute(adapter, tokens, n, kv)
        self.keep(adapter, tokens, kv)
        return self.logits(adapter, kv)


class KnownGivesNone(Base):
    def answer(self, adapter, tokens):
        n, _ = self.find(adapter, tokens)
        return super().answer(adapter, tokens) if n < len(tokens) else None


class KnownFromStart(Base):
    """A known prompt is computed from its start."""

    def find(self, adapter, tokens):
        n, kv = super().find(adapter, tokens)
        return (n, kv) if n < len(tokens) else (0, None)


class TwoTokensAtLeast(Base):
    """Prompts of one token are not looked for."""

    def lengths(self, tokens):
        return range(len(tokens), 1, -1)


# Near misses.


class JoinedTokens(Base):
    def key(self, tokens):
        return "".join(map(str, tokens))


class SortedTokens(Base):
    def key(self, tokens):
        return tuple(sorted(tokens))


class FirstAndLast(Base):
    def key(self, tokens):
        return len(tokens), tokens[0], tokens[-1]


class LastToken(Base):
    def key(self, tokens):
        return len(tokens), tokens[-1]


class FirstToken(Base):
    def key(self, tokens):
        return len(tokens), tokens[0]


class LengthAlone(Base):
    def key(self, tokens):
        return len(tokens)


class NoZeros(Base):
    """Token 0 is taken for padding."""

    def key(self, tokens):
        return tuple(token for token in tokens if token)


class LongestInCommon(Base):
    """The KV that has most in common with the prompt is taken, also where it goes on otherwise."""

    def find(self, adapter, tokens):
        best = 0, None
        for key, kv in self.made(adapter).items():
            n = 0
            while n < min(len(key), len(tokens)) and key[n] == tokens[n]:
                n += 1
            if n > best[0] or (n == best[0] and n == len(key)):
                best = n, kv
        return best


class LongerOnesToo(Base):
    """A KV that begins with the whole prompt is taken for it."""

    def find(self, adapter, tokens):
        n, kv = super().find(adapter, tokens)
        longer = [kv for key, kv in self.made(adapter).items() if list(key[: len(tokens)]) == tokens]
        return (len(tokens), longer[0]) if longer and n < len(tokens) else (n, kv)


class AnyEnding(Base):
    """A KV whose tokens stand anywhere in the prompt is found."""

    def find(self, adapter, tokens):
        for key, kv in sorted(self.made(adapter).items(), key=lambda item: -len(item[0])):
            for start in range(len(tokens) - len(key) + 1):
                if tuple(tokens[start : start + len(key)]) == key:
                    return start + len(key), kv
        return 0, None


# Two servers.


class OnTheClass(Base):
    """The dict is on the class, so that every server's KVs are in it."""

    shared = {}

    def __init__(self, server):
        self.server, self.kvs = server, self.shared


MISTAKES = (
    Mistake(
        "nothing-kept",
        NothingKept,
        "You compute every prompt from its start. Keep its KV, and let a longer prompt go on from there.",
        PREFIXES,
    ),
    Mistake(
        "all-tokens-again",
        AllTokensAgain,
        "You compute all tokens behind the KV that has some of them already. Only those that follow it.",
        PREFIXES,
    ),
    Mistake(
        "nothing-before",
        NothingBefore,
        "You compute the new tokens behind nothing, as if they were the start. Pass the KV found as `after`.",
        PREFIXES,
    ),
    Mistake(
        "one-token-short",
        OneTokenShort,
        "You leave out the first token behind the KV. The rest begins at place n: tokens[n:].",
        PREFIXES,
    ),
    Mistake(
        "one-token-twice",
        OneTokenTwice,
        "You compute the KV's last token once more. The rest begins at place n: tokens[n:].",
        PREFIXES,
    ),
    Mistake(
        "new-tokens-as-key",
        NewTokensAsKey,
        "You enter a KV under the tokens computed just now. It holds all tokens of the prompt: enter it under those.",
        PREFIXES,
    ),
    Mistake(
        "shortest-first",
        ShortestFirst,
        "You take the shortest KV that fits. The longest leaves least to compute.",
        PREFIXES,
    ),
    Mistake(
        "whole-prompt-only",
        WholePromptOnly,
        "You only find a prompt that is exactly the same. One that this prompt begins with is as good.",
        PREFIXES,
    ),
    Mistake(
        "one-token-more-only",
        OneTokenMoreOnly,
        "You only look one token back. A prompt may have grown by many: try every length.",
        PREFIXES,
    ),
    Mistake(
        "newest-only",
        NewestOnly,
        "You keep an adapter's newest KV only. Another conversation may go on from an older one.",
        PREFIXES,
    ),
    Mistake(
        "moved",
        Moved,
        "A KV that was continued is gone with you. It stays as it is, and others may go on from it.",
        PREFIXES,
    ),
    Mistake(
        "first-only",
        FirstOnly,
        "You keep a KV only where all of it was computed at once. One that was continued is a KV too.",
        PREFIXES,
    ),
    Mistake(
        "zero-is-none",
        ZeroIsNone,
        "KV 0 becomes None on its way: `kv or None`. 0 is a number of a KV.",
        PREFIXES,
    ),
    Mistake(
        "zero-is-not-found",
        ZeroIsNotFound,
        "KV 0 counts as not found: `if kv` is false for 0. Ask `is not None`, or `in`.",
        PREFIXES,
    ),
    Mistake(
        "token-by-token",
        TokenByToken,
        "You call compute() for each token. Each call reads all weights: one call for all new tokens.",
        PREFIXES,
    ),
    Mistake(
        "prefix-first",
        PrefixFirst,
        "You compute all but the last token, and then that one. One call does both.",
        PREFIXES,
    ),
    Mistake("gives-the-kv", GivesTheKV, "answer() gives the KV's number. Wanted are its logits.", PREFIXES),
    Mistake(
        "logits-of-the-prefix",
        LogitsOfThePrefix,
        "You ask logits of the KV that was found. Those of the one that holds all tokens are wanted.",
        PREFIXES,
    ),
    Mistake(
        "one-for-all",
        OneForAll,
        "Adapters share their KVs with you. Each has other rows, and the server does not notice.",
        WHOSE,
    ),
    Mistake(
        "version-alone",
        VersionAlone,
        "You keep KVs apart by version. Two adapters may both be at v1: the name belongs to it.",
        WHOSE,
    ),
    Mistake(
        "base-for-all",
        BaseForAll,
        "Where an adapter has nothing, you take what the model without an adapter made. Its rows are others.",
        WHOSE,
    ),
    Mistake(
        "longest-of-base",
        LongestOfBase,
        "You take the KV of the model without an adapter where it is longer. Its rows are others.",
        WHOSE,
    ),
    Mistake(
        "any-for-base",
        AnyForBase,
        'Without an adapter you take whatever is there. "" is a set of weights like any other.',
        WHOSE,
    ),
    Mistake(
        "base-not-kept",
        BaseNotKept,
        'Nothing is kept for the adapter "": `if adapter` is false for it. It is the model itself.',
        PREFIXES,
    ),
    Mistake(
        "only-base-kept",
        OnlyBaseKept,
        "You keep KVs of the model without an adapter only. Those of adapters are reused too, by the same adapter.",
        PREFIXES,
    ),
    Mistake(
        "computed-by-base",
        ComputedByBase,
        "The model without an adapter computes all your rows. An adapter has to compute its own.",
        PREFIXES,
    ),
    Mistake(
        "logits-of-base",
        LogitsOfBase,
        "You ask the model without an adapter for logits. Ask with the adapter's name.",
        PREFIXES,
    ),
    Mistake(
        "one-adapter-at-a-time",
        OneAdapterAtATime,
        "When another adapter is asked you forget everything. Adapters take turns: keep what each has made.",
        WHOSE,
    ),
    Mistake(
        "first-word",
        FirstWord,
        "poet and poet-2 are the same adapter to you. Compare whole names.",
        WHOSE,
    ),
    Mistake(
        "letters-of-the-name",
        JoinedNames,
        "You mix the letters of name and version into one text. Different pairs give the same: keep a pair.",
        WHOSE,
    ),
    Mistake(
        "whoever-made-it",
        FirstMaker,
        "You take a prefix's KV from whoever made it. Only the same adapter's rows may be continued.",
        WHOSE,
    ),
    Mistake(
        "length-of-the-name",
        LengthOfWeights,
        "You keep adapters apart by the length of their names. Compare the names.",
        WHOSE,
    ),
    Mistake(
        "name-alone",
        NameAlone,
        "You keep KVs apart by name. After an upload the same name stands for other weights: the version too.",
        ANEW,
    ),
    Mistake(
        "version-once",
        VersionOnce,
        "You ask an adapter's version once. It changes when weights are uploaded: ask for each prompt.",
        ANEW,
    ),
    Mistake(
        "version-of-base",
        VersionOfBase,
        "You ask the version of the model without an adapter. Ask with the adapter's name.",
        ANEW,
    ),
    Mistake(
        "base-never-changes",
        BaseNeverChanges,
        'You ask no version of "". The model itself may be uploaded anew, too.',
        ANEW,
    ),
    Mistake(
        "one-upload",
        OneUpload,
        "All versions but the first are one to you. Compare the whole text.",
        ANEW,
    ),
    Mistake(
        "all-forgotten",
        AllForgotten,
        "One adapter's upload makes you forget all others. Their weights have not changed.",
        ANEW,
    ),
    Mistake(
        "checked-when-whole",
        CheckedWhenWhole,
        "You compare versions for whole prompts, and not for prefixes. A prefix of old weights is as wrong.",
        ANEW,
    ),
    Mistake(
        "version-afterwards",
        VersionAfterwards,
        "You look at the version after you have answered. The first answer after an upload is wrong then.",
        ANEW,
    ),
    Mistake(
        "new-version-not-kept",
        NewVersionNotKept,
        "You keep nothing for weights that were uploaded anew. They are reused like the first ones.",
        ANEW,
    ),
    Mistake(
        "never-whole",
        NeverWhole,
        "A prompt that is known has some of its tokens computed again. Its KV is there: ask it for logits.",
        KNOWN,
    ),
    Mistake(
        "last-token-again",
        LastTokenAgain,
        "Behind a known prompt you compute its last token once more. It is there already: ask for logits.",
        KNOWN,
    ),
    Mistake(
        "empty-call",
        EmptyCall,
        "For a known prompt you call compute() without a token. There is nothing to compute: ask for logits.",
        KNOWN,
    ),
    Mistake("known-gives-none", KnownGivesNone, "A known prompt gives None. Its KV is there: logits.", KNOWN),
    Mistake(
        "known-from-start",
        KnownFromStart,
        "A prompt that is known is computed from its start. Its KV is there: ask it for logits.",
        KNOWN,
    ),
    Mistake(
        "two-tokens-at-least",
        TwoTokensAtLeast,
        "A KV of one token is never found. It is as good as a longer one.",
        KNOWN,
    ),
    Mistake(
        "joined-tokens",
        JoinedTokens,
        "You join tokens into one text: [1, 23] and [12, 3] become the same. A tuple keeps them apart.",
        NEAR,
    ),
    Mistake(
        "sixteen-bits",
        SixteenBits,
        "You keep 16 bits of each token. Vocabularies are larger: 70005 and 4469 are two tokens.",
        NEAR,
    ),
    Mistake(
        "keeps-the-list",
        KeepsTheList,
        "You keep the caller's list, which grows with the conversation. A copy says what the KV holds.",
        NEAR,
    ),
    Mistake(
        "takes-tokens-out",
        TakesTokensOut,
        "You take tokens out of the caller's list. It is the conversation: work on a copy.",
        NEAR,
    ),
    Mistake(
        "sixteen-back",
        SixteenBack,
        "You look for prefixes up to 16 tokens shorter. A prompt may be any number of tokens longer.",
        PREFIXES,
    ),
    Mistake(
        "sixty-four-kept",
        SixtyFour,
        "You keep the newest 64 KVs only. Here all KVs of earlier prompts are to be found again.",
        KNOWN,
    ),
    *(
        Mistake(
            f"joined-by-{name}",
            work,
            "You join name and version into one text: a, b:c and a:b, c meet. Keep a pair.",
            TEXTS,
        )
        for name, work in (("a-colon", Colon), ("a-slash", Slash), ("nothing", NothingBetween))
    ),
    Mistake(
        "set-of-both",
        SetOfBoth,
        "A set does not know which is the name and which the version: a at b is b at a. Keep a pair.",
        TEXTS,
    ),
    Mistake(
        "names-in-any-case",
        NamesInAnyCase,
        "poet and Poet are the same adapter to you. Names are texts: compare them as they are.",
        TEXTS,
    ),
    Mistake(
        "versions-in-any-case",
        VersionsInAnyCase,
        "v1 and V1 are the same version to you. Compare them as they are.",
        TEXTS,
    ),
    Mistake(
        "number-of-the-version",
        NumberOfTheVersion,
        "You compare the digits of versions. A version is a text: compare all of it.",
        TEXTS,
    ),
    Mistake(
        "major-version",
        MajorVersion,
        "v1.0 and v1.1 are the same to you. They are other weights: compare the whole text.",
        TEXTS,
    ),
    Mistake(
        "largest-version",
        LargestVersion,
        "You take the largest version for the newest. Versions are texts without an order: take what the server says.",
        TEXTS,
    ),
    Mistake("sorted-tokens", SortedTokens, "You sort the tokens. Their order makes the text.", NEAR),
    Mistake(
        "first-and-last",
        FirstAndLast,
        "You compare the length, the first and the last token. Those between them count too.",
        NEAR,
    ),
    Mistake("last-token", LastToken, "You compare the length and the last token. All tokens count.", NEAR),
    Mistake("first-token", FirstToken, "You compare the length and the first token. All tokens count.", PREFIXES),
    Mistake("length-alone", LengthAlone, "You compare lengths. The tokens themselves count.", PREFIXES),
    Mistake("no-zeros", NoZeros, "You leave out token 0. It is a token like any other.", NEAR),
    Mistake(
        "longest-in-common",
        LongestInCommon,
        "You take the KV that has most in common with a prompt. It holds further tokens, which cannot be taken out.",
        PREFIXES,
    ),
    Mistake(
        "longer-ones-too",
        LongerOnesToo,
        "You take a longer KV for its beginning. Its logits are those behind its last token.",
        PREFIXES,
    ),
    Mistake(
        "anywhere-in-the-prompt",
        AnyEnding,
        "You find KVs that stand somewhere within the prompt. Only at its beginning the rows are the same.",
        NEAR,
    ),
    Mistake(
        "on-the-class",
        OnTheClass,
        "KVs of all servers are in one dict on the class. Numbers are a server's own: make it in __init__.",
        TWO,
        leaks=True,
    ),
)


class Flat:
    """A list of all KVs, looked through from the longest."""

    def __init__(self, server):
        self.server, self.all = server, []

    def answer(self, adapter, tokens):
        version = self.server.version(adapter)
        fitting = [
            (len(held), kv)
            for name, made_by, held, kv in self.all
            if (name, made_by) == (adapter, version) and held == tokens[: len(held)]
        ]
        n, kv = max(fitting, default=(0, None), key=lambda found: found[0])
        if n < len(tokens):
            kv = self.server.compute(adapter, tokens[n:], kv)
            self.all.append((adapter, version, [*tokens], kv))
        return list(self.server.logits(adapter, kv))


class Tree:
    """A tree of tokens for each adapter and version; nodes that are ends of prompts have a KV."""

    def __init__(self, server):
        self.server, self.roots = server, {}

    def answer(self, adapter, tokens):
        version, root = self.roots.get(adapter, (None, None))
        if version != self.server.version(adapter):
            root = {}
            self.roots[adapter] = self.server.version(adapter), root
        node, found, rest = root, None, list(tokens)
        for i, token in enumerate(tokens):
            node = node.setdefault(token, {})
            if "kv" in node:
                found, rest = node["kv"], list(tokens[i + 1 :])
        if rest:
            node["kv"] = self.server.compute(adapter, rest, found)
        return self.server.logits(adapter, node["kv"])


class Texts:
    """One flat dict, with texts as keys, and logits remembered too."""

    def __init__(self, server):
        self.ask, self.kv, self.known = server, {}, {}

    def text(self, adapter, version, tokens):
        return repr((adapter, version, [int(token) for token in tokens]))

    def answer(self, adapter, tokens):
        version = self.ask.version(adapter)
        whole = self.text(adapter, version, tokens)
        if whole not in self.known:
            after, n = None, 0
            for i in range(1, len(tokens)):
                if self.text(adapter, version, tokens[:i]) in self.kv:
                    after, n = self.kv[self.text(adapter, version, tokens[:i])], i
            self.kv[whole] = self.ask.compute(adapter, tokens[n:], after)
            self.known[whole] = self.ask.logits(adapter, self.kv[whole])
        return self.known[whole]


def closures(server):
    """Two functions and a dict that they share, in place of a class."""
    kvs = {}

    class Answers:
        def answer(self, adapter, tokens):
            whose = (server.version(adapter), adapter)

            def kv_of(n):
                return kvs.get((whose, tuple(tokens[:n])))

            n = next((n for n in reversed(range(1, len(tokens) + 1)) if kv_of(n) is not None), 0)
            if n != len(tokens):
                kvs[whose, tuple(tokens)] = server.compute(adapter, tokens[n:], kv_of(n) if n else None)
            return server.logits(adapter, kv_of(len(tokens)))

    return Answers()


VARIANTS = (
    Variant("a list of all KVs", Flat),
    Variant("a tree of tokens", Tree),
    Variant("texts as keys, logits remembered", Texts),
    Variant("closures", closures),
    Variant("dicts in dicts", Base),
)
