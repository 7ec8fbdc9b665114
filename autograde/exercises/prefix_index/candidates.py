"""Wrong and right ways to find prefixes again. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter, OrderedDict, deque

from autograde.exercise import Mistake, Variant


class Base:
    """Keys are nested tuples: (key of the block before, tokens). A key has a list of blocks."""

    def __init__(self, num_blocks, block_size):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.holders = [0] * num_blocks
        self.free = list(range(num_blocks))  # given out from the front
        self.tables, self.keys, self.found, self.done = {}, {}, {}, {}  # of each request
        self.blocks, self.key_of = {}, {}

    @property
    def num_free(self):
        return len(self.free)

    # Keys.

    def root(self, identity):
        return tuple(identity)

    def link(self, parent, tokens, identity):
        return (parent, tuple(tokens))

    def chain(self, tokens, identity):
        key, keys, size = self.root(identity), [], self.block_size
        for i in range(len(tokens) // size):
            key = self.link(key, tokens[i * size : i * size + size], identity)
            keys.append(key)
        return keys

    # What is found.

    def most(self, tokens):
        return (len(tokens) - 1) // self.block_size

    def find(self, keys):
        hits = []
        for key in keys:
            if not self.blocks.get(key):
                break
            hits.append(self.blocks[key][0])
        return hits

    def register(self, key, block):
        if key not in self.blocks:
            self.blocks[key] = []
        if block not in self.blocks[key]:
            self.blocks[key].append(block)
        self.key_of[block] = key

    def forget(self, block):
        key = self.key_of.pop(block, None)
        if key is not None:
            self.blocks[key].remove(block)

    # The life of a request.

    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        keys = self.chain(tokens, identity)
        hits = self.find(keys[: self.most(tokens)])
        missing = self.missing(tokens, hits)
        if missing > self.room(hits):
            raise ValueError("no room")
        self.tables[request] = self.take(hits, missing)
        self.keys[request], self.found[request] = keys, len(hits)
        return self.answer(len(hits), tokens)

    def refuse(self, request, tokens):
        if request in self.tables:
            raise ValueError("known already")
        if not tokens:
            raise ValueError("no tokens")

    def missing(self, tokens, hits):
        return -(-len(tokens) // self.block_size) - len(hits)

    def room(self, hits):
        return len(self.free) - sum(self.holders[block] == 0 for block in hits)

    def take(self, hits, missing):
        for block in hits:
            self.hold(block)
        return hits + [self.give_out() for _ in range(missing)]

    def answer(self, hits, tokens):
        return hits * self.block_size

    def hold(self, block):
        if self.holders[block] == 0:
            self.free.remove(block)
        self.holders[block] += 1

    def give_out(self):
        block = self.free.pop(0)
        self.forget(block)
        self.holders[block] = 1
        return block

    def known(self, request):
        if request not in self.tables:
            raise ValueError("unknown")

    def table(self, request):
        self.known(request)
        return list(self.tables[request])

    def computed(self, request):
        self.known(request)
        self.done[request] = True
        for key, block in zip(self.keys[request], self.tables[request]):
            self.register(key, block)

    def release(self, request):
        self.known(request)
        self.done.pop(request, None)
        del self.keys[request]
        for block in self.tables.pop(request):
            self.let_go(block)

    def let_go(self, block):
        self.holders[block] -= 1
        if self.holders[block] == 0:
            self.free.append(block)


# Keys: tokens.


class NoParent(Base):
    def link(self, parent, tokens, identity):
        return (tuple(identity), tuple(tokens))


class NumberedBlocks(Base):
    """The place in the prompt, and the block's own tokens."""

    def chain(self, tokens, identity):
        size = self.block_size
        return [(tuple(identity), i, tuple(tokens[i * size : i * size + size])) for i in range(len(tokens) // size)]


class OnlyTheBlockBefore(Base):
    """A window of two blocks."""

    def chain(self, tokens, identity):
        size = self.block_size
        ends = range(size, len(tokens) + 1, size)
        return [(tuple(identity), end, tuple(tokens[max(0, end - 2 * size) : end])) for end in ends]


class FirstBlockAndOwn(Base):
    def chain(self, tokens, identity):
        size = self.block_size
        first = tuple(tokens[:size])
        return [
            (tuple(identity), i, first, tuple(tokens[i * size : i * size + size])) for i in range(len(tokens) // size)
        ]


class OnlyBefore(Base):
    """The key of a block is that of what stands before it."""

    def chain(self, tokens, identity):
        return [self.root(identity), *super().chain(tokens, identity)][: len(tokens) // self.block_size]


class PastAsASet(Base):
    """Everything before is in the key, but not its order."""

    def chain(self, tokens, identity):
        size = self.block_size
        starts = range(0, len(tokens) - size + 1, size)
        return [(tuple(identity), frozenset(tokens[:i]), tuple(tokens[i : i + size])) for i in starts]


class JoinedWithoutSeparators(Base):
    def link(self, parent, tokens, identity):
        return (parent, "".join(map(str, tokens)))


class SumOfTokens(Base):
    def link(self, parent, tokens, identity):
        return (parent, sum(tokens))


class SetOfTokens(Base):
    def link(self, parent, tokens, identity):
        return (parent, frozenset(tokens))


class SortedTokens(Base):
    def link(self, parent, tokens, identity):
        return (parent, tuple(sorted(tokens)))


class OneNumber(Base):
    def link(self, parent, tokens, identity):
        number = 0
        for token in tokens:
            number = number * 31 + token
        return (parent, number)


class OneByte(Base):
    def link(self, parent, tokens, identity):
        return (parent, bytes(token & 255 for token in tokens))


class TwoBytes(Base):
    def link(self, parent, tokens, identity):
        return (parent, b"".join((token & 65535).to_bytes(2, "little") for token in tokens))


class FourBytes(Base):
    def link(self, parent, tokens, identity):
        return (parent, b"".join((token & 2**32 - 1).to_bytes(4, "little") for token in tokens))


class SignLost(Base):
    def link(self, parent, tokens, identity):
        return (parent, tuple(map(abs, tokens)))


class SinglePrecision(Base):
    def link(self, parent, tokens, identity):
        return (parent, struct.pack(f"{len(tokens)}f", *tokens))


class DoublePrecision(Base):
    def link(self, parent, tokens, identity):
        return (parent, tuple(map(float, tokens)))


class HashTrusted(Base):
    def link(self, parent, tokens, identity):
        return hash((parent, tuple(tokens)))


class FirstTokenOfEach(Base):
    def link(self, parent, tokens, identity):
        return (parent, tokens[0])


class LastTokenOfEach(Base):
    def link(self, parent, tokens, identity):
        return (parent, tokens[-1])


class OnlyTheFirstBlockLooked(Base):
    """If the first block is there, the rest is taken to be too."""

    def find(self, keys):
        if not keys or not self.blocks.get(keys[0]):
            return []
        first = self.blocks[keys[0]][0]
        for request, table in self.tables.items():
            if table[0] == first and self.done.get(request):
                return table[: min(len(keys), len(self.keys[request]))]
        return [first]


# Keys: identity.


class NoIdentity(Base):
    def root(self, identity):
        return ()


class OnlyModel(Base):
    def root(self, identity):
        return (identity[0],)


class OnlyTenant(Base):
    def root(self, identity):
        return (identity[2],)


class NoTenant(Base):
    def root(self, identity):
        return tuple(identity[:2])


class NoAdapter(Base):
    def root(self, identity):
        return (identity[0], identity[2])


class NoModel(Base):
    def root(self, identity):
        return tuple(identity[1:])


class IdentityJoined(Base):
    def root(self, identity):
        return "".join(identity)


class EmptyOnesLeftOut(Base):
    def root(self, identity):
        return tuple(part for part in identity if part)


class IdentityAsASet(Base):
    def root(self, identity):
        return frozenset(identity)


class IdentitySorted(Base):
    def root(self, identity):
        return tuple(sorted(identity))


class JoinedWithASlash(Base):
    def root(self, identity):
        return "/".join(identity)


class JoinedWithAZero(Base):
    def root(self, identity):
        return "\0".join(identity)


class CaseLost(Base):
    def root(self, identity):
        return tuple(part.lower() for part in identity)


class Stripped(Base):
    def root(self, identity):
        return tuple(part.strip() for part in identity)


class OnlyInTheFirstBlock(Base):
    """The first block's key has the identity, the others have all tokens before."""

    def chain(self, tokens, identity):
        size = self.block_size
        ends = range(size, len(tokens) + 1, size)
        return [(tuple(tokens[:end]), tuple(identity) if end == size else ()) for end in ends]


class OneIdentityAtATime(Base):
    """Everything is forgotten when another identity comes."""

    newest = None

    def chain(self, tokens, identity):
        if identity != self.newest:
            self.blocks, self.key_of, self.newest = {}, {}, identity
        return super().chain(tokens, identity)

    def forget(self, block):
        if block in self.key_of:
            super().forget(block)


# How much is found.


class NeverFinds(Base):
    def find(self, keys):
        return []


class CountsBlocks(Base):
    def answer(self, hits, tokens):
        return hits


class WholePromptCached(Base):
    """A prompt of whole blocks that is all there leaves nothing to compute."""

    def most(self, tokens):
        return len(tokens) // self.block_size


class OneTokenLess(WholePromptCached):
    """All blocks are taken, and the last token is computed again: into a block that others hold."""

    def answer(self, hits, tokens):
        return min(hits * self.block_size, len(tokens) - 1)


class OneBlockLessSaid(WholePromptCached):
    """All blocks are taken, and of a whole prompt the last is computed again: into a block that others hold."""

    def answer(self, hits, tokens):
        return (hits - (hits * self.block_size == len(tokens))) * self.block_size


class LastBlockNeverFound(Base):
    """The last full block is left out, also where tokens follow it."""

    def most(self, tokens):
        return max(0, len(tokens) // self.block_size - 1)


class OnlyOneBlock(Base):
    def most(self, tokens):
        return min(1, super().most(tokens))


class OnlyWholePrompts(Base):
    """All or nothing: a prompt that goes on differently finds nothing."""

    def find(self, keys):
        hits = super().find(keys)
        return hits if len(hits) == len(keys) else []


class PartialBlocksFound(Base):
    """The last block counts too, when it is filled alike."""

    def chain(self, tokens, identity):
        key, keys, size = self.root(identity), [], self.block_size
        for i in range(0, len(tokens), size):
            key = self.link(key, tokens[i : i + size], identity)
            keys.append(key)
        return keys

    def most(self, tokens):
        return len(tokens)

    def answer(self, hits, tokens):
        return min(hits * self.block_size, len(tokens) - 1)


class Padded(Base):
    """The last block is filled up with zeros, and found under that."""

    def chain(self, tokens, identity):
        return super().chain([*tokens, *[0] * (-len(tokens) % self.block_size)], identity)


class GoesOnAfterAGap(Base):
    """Blocks are looked up one by one; those that are there are counted."""

    def find(self, keys):
        return [self.blocks[key][0] for key in keys if self.blocks.get(key)]


class OnlyHeld(Base):
    """Forgets a block as soon as nobody holds it."""

    def let_go(self, block):
        super().let_go(block)
        if self.holders[block] == 0:
            self.forget(block)


class OnlyReleased(Base):
    """Blocks in use are not shared: only what lies on the free list is found."""

    def find(self, keys):
        hits = []
        for key in keys:
            free = [block for block in self.blocks.get(key, ()) if self.holders[block] == 0]
            if not free:
                break
            hits.append(free[0])
        return hits


class OnlyTheNewest(Base):
    """Looks only at the request that was computed last."""

    def computed(self, request):
        self.known(request)
        self.blocks, self.key_of = {}, {}
        super().computed(request)

    def forget(self, block):
        if block in self.key_of:
            super().forget(block)


class SharedIndex(Base):
    """The map belongs to the class."""

    shared: dict = {}  # noqa: RUF012 - this is the mistake

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.blocks = self.shared


# When it is found.


class AtAdmit(Base):
    def admit(self, request, tokens, identity):
        cached = super().admit(request, tokens, identity)
        for key, block in zip(self.keys[request], self.tables[request]):
            self.register(key, block)
        return cached


class AtRelease(Base):
    """A request's blocks are entered when it ends, not when they are computed."""

    def computed(self, request):
        self.known(request)
        self.done[request] = True

    def release(self, request):
        if self.done.get(request):
            super().computed(request)
        super().release(request)


class AtReleaseAnyway(Base):
    """What was not entered yet is entered when the request ends."""

    def release(self, request):
        self.known(request)
        self.computed(request)
        super().release(request)


class ComputedMarksAll(Base):
    """computed() enters the blocks of every request there is."""

    def computed(self, request):
        self.known(request)
        for name in self.tables:
            super().computed(name)


class ReleaseForgetsShared(Base):
    """A request that ends before computed() takes what it found with it."""

    def release(self, request):
        self.known(request)
        if not self.done.get(request):
            for block in self.tables[request]:
                self.forget(block)
        super().release(request)


class FoundOnlyOnce(Base):
    """A block that was found is no longer in the map."""

    def find(self, keys):
        hits = super().find(keys)
        for block in hits:
            self.forget(block)
        return hits

    def register(self, key, block):
        if self.holders[block] == 1:
            super().register(key, block)


# Who holds what.


class HitsNotCounted(Base):
    """A found block keeps the number of holders it had."""

    def hold(self, block):
        if self.holders[block] == 0:
            super().hold(block)


class ReleasedWhileShared(Base):
    def let_go(self, block):
        self.holders[block] = 0
        self.free.append(block)


class StaysOnTheFreeList(Base):
    def hold(self, block):
        self.holders[block] += 1

    def room(self, hits):
        return len(self.free)


class StaysOnAHiddenList(Base):
    """num_free is counted from the holders, and is right; the list that blocks are given out from is not."""

    @property
    def num_free(self):
        return self.holders.count(0)

    def hold(self, block):
        self.holders[block] += 1

    def room(self, hits):
        return self.num_free - sum(self.holders[block] == 0 for block in hits)

    def let_go(self, block):
        self.holders[block] -= 1
        if self.holders[block] == 0 and block not in self.free:
            self.free.append(block)


class NewOnesFirst(Base):
    """New blocks are taken before the found ones are held."""

    def take(self, hits, missing):
        new = [self.give_out() for _ in range(missing)]
        for block in hits:
            if self.holders[block] == 0 and block in self.free:
                self.free.remove(block)
            self.holders[block] += 1
        return hits + new


class NeverReleased(Base):
    def let_go(self, block):
        pass


class OnlyFullOnesReleased(Base):
    """The last block, partly filled, does not go back."""

    def release(self, request):
        self.known(request)
        full = len(self.keys.pop(request))
        self.done.pop(request, None)
        for block in self.tables.pop(request)[:full]:
            self.let_go(block)


class FoundOnesNeverReleased(Base):
    """Each request gives back the blocks that it took itself; one that it left to others stays with nobody."""

    def release(self, request):
        self.known(request)
        self.done.pop(request, None)
        del self.keys[request]
        for i, block in enumerate(self.tables.pop(request)):
            if i >= self.found[request]:
                self.let_go(block)
            else:
                self.holders[block] -= 1


class FreeMeansUnknown(Base):
    """num_free leaves out the blocks that can still be found."""

    @property
    def num_free(self):
        return sum(block not in self.key_of for block in self.free)


class KnownNeverGivenOut(Base):
    """Only blocks that cannot be found are given out as new ones."""

    def room(self, hits):
        return sum(block not in self.key_of for block in self.free)

    def give_out(self):
        self.free.sort(key=lambda block: block in self.key_of)
        return super().give_out()


class LiveEvicted(Base):
    """When the free list is empty, the oldest known block is taken, held or not."""

    def room(self, hits):
        return self.num_blocks

    def give_out(self):
        if self.free:
            return super().give_out()
        block = next(iter(self.key_of))
        self.forget(block)
        return block


class OneSpare(Base):
    """One block is never given out."""

    def room(self, hits):
        return super().room(hits) - 1


class BlockTooMany(Base):
    """len // block_size + 1: one too many for whole blocks."""

    def missing(self, tokens, hits):
        return len(tokens) // self.block_size + 1 - len(hits)


class FloorBlocks(Base):
    """The last block, partly filled, is missing."""

    def missing(self, tokens, hits):
        return max(1, len(tokens) // self.block_size) - len(hits)


class OnlyNewInTheTable(Base):
    """table() shows the blocks that were newly taken."""

    def table(self, request):
        table = super().table(request)
        return table[self.found[request] :]


class FoundOnesLast(Base):
    def take(self, hits, missing):
        return super().take(hits, missing)[len(hits) :] + hits


class FoundOnesBackwards(Base):
    def take(self, hits, missing):
        return hits[::-1] + super().take(hits, missing)[len(hits) :]


# Given out again.


class StaleMap(Base):
    """What lay in a block is still in the map when it has been given out again."""

    def forget(self, block):
        pass


class ForgottenWhenComputed(Base):
    """The old key goes when the new rows are there: until then it finds what is being written over."""

    def forget(self, block):
        pass

    def computed(self, request):
        self.known(request)
        for block in self.tables[request]:
            super().forget(block)
        super().computed(request)


class OnlyFirstCopy(Base):
    """A key has one block, the first. When that is given out, the copies are forgotten."""

    def register(self, key, block):
        if not self.blocks.get(key):
            self.blocks[key] = [block]
            self.key_of[block] = key


class OnlyLastCopy(Base):
    """A key has one block, the newest."""

    def register(self, key, block):
        for old in self.blocks.get(key, ()):
            self.key_of.pop(old, None)
        self.blocks[key] = [block]
        self.key_of[block] = key


class AllCopiesForgotten(Base):
    """With one block, its key goes, whoever else has it."""

    def forget(self, block):
        key = self.key_of.pop(block, None)
        self.blocks.pop(key, None)


# Refusals.


class RoomForTheWholePrompt(Base):
    """Counts found blocks as needed."""

    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        if -(-len(tokens) // self.block_size) > len(self.free):
            raise ValueError("no room")
        return super().admit(request, tokens, identity)


class FreeHitsCountedTwice(Base):
    """Blocks found on the free list are also counted as room for new ones."""

    def room(self, hits):
        return len(self.free)


class EvictsBeforeRefusing(Base):
    """Takes blocks one by one, and puts them back when they do not suffice: what they held is forgotten."""

    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        hits = self.find(self.chain(tokens, identity)[: self.most(tokens)])
        if self.missing(tokens, hits) > self.room(hits):
            for block in self.free:
                self.forget(block)
            raise ValueError("no room")
        return super().admit(request, tokens, identity)


class HoldsBeforeRefusing(Base):
    """A refused request goes on holding what it found."""

    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        hits = self.find(self.chain(tokens, identity)[: self.most(tokens)])
        if self.missing(tokens, hits) > self.room(hits):
            for block in hits:
                self.hold(block)
        return super().admit(request, tokens, identity)


class NamesBeforeRefusing(Base):
    """A refused request stays known."""

    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        try:
            return super().admit(request, tokens, identity)
        except ValueError:
            self.tables[request], self.keys[request] = [], []
            raise


class TakesBeforeRefusing(Base):
    """Blocks that were taken before the pool was empty stay taken."""

    def room(self, hits):
        return self.num_blocks

    def give_out(self):
        if not self.free:
            raise ValueError("no room")
        return super().give_out()


class GivesWhatThereIs(Base):
    def take(self, hits, missing):
        return super().take(hits, min(missing, super().room(hits)))

    def room(self, hits):
        return self.num_blocks


class NoneWhenFull(Base):
    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        hits = self.find(self.chain(tokens, identity)[: self.most(tokens)])
        if self.missing(tokens, hits) > self.room(hits):
            return None
        return super().admit(request, tokens, identity)


class MemoryErrorWhenFull(Base):
    def admit(self, request, tokens, identity):
        self.refuse(request, tokens)
        hits = self.find(self.chain(tokens, identity)[: self.most(tokens)])
        if self.missing(tokens, hits) > self.room(hits):
            raise MemoryError("out of blocks")
        return super().admit(request, tokens, identity)


class KnownAdmittedAgain(Base):
    """A name that is there gets a new table; the old one's blocks are lost."""

    def refuse(self, request, tokens):
        if not tokens:
            raise ValueError("no tokens")


class KnownStartsAgain(Base):
    """A name that is there is released first."""

    def refuse(self, request, tokens):
        if not tokens:
            raise ValueError("no tokens")
        if request in self.tables:
            self.release(request)


class EmptyAdmitted(Base):
    def refuse(self, request, tokens):
        if request in self.tables:
            raise ValueError("known already")


class NamesNeverForgotten(Base):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.seen = set()

    def admit(self, request, tokens, identity):
        if request in self.seen:
            raise ValueError("known already")
        cached = super().admit(request, tokens, identity)
        self.seen.add(request)
        return cached


class KeyErrorForUnknown(Base):
    def known(self, request):
        self.tables[request]


class UnknownIgnored(Base):
    def release(self, request):
        if request in self.tables:
            super().release(request)


class UnknownHasNoBlocks(Base):
    def table(self, request):
        return list(self.tables.get(request, ()))


class UnknownComputed(Base):
    def computed(self, request):
        if request in self.tables:
            super().computed(request)


class StillKnown(Base):
    """A released request can still be read."""

    def release(self, request):
        super().table(request)
        self.old = {**getattr(self, "old", {}), request: self.tables[request]}
        super().release(request)

    def table(self, request):
        if request not in self.tables and request in getattr(self, "old", {}):
            return list(self.old[request])
        return super().table(request)


MISTAKES = (
    Mistake("no-parent", NoParent, "A block's key holds its own tokens only. Its rows depend on all tokens before it: put the key of the block before into the key.", "the whole past"),
    Mistake("numbered-blocks", NumberedBlocks, "The key is the block's number and its own tokens. The same block after another beginning has other rows: chain the keys.", "the whole past"),
    Mistake("only-the-block-before", OnlyTheBlockBefore, "The key looks back one block. Rows depend on everything from the start: hold the *key* of the block before, not its tokens.", "the whole past"),
    Mistake("first-block-and-own", FirstBlockAndOwn, "The key holds the first block and the block's own tokens. What stands between counts as well.", "the whole past"),
    Mistake("only-what-is-before", OnlyBefore, "The key of a block is that of what stands before it. The block's own tokens belong in.", "found again"),
    Mistake("past-as-a-set", PastAsASet, "The tokens before a block are in its key as a set: their order and how often they come is lost.", "the whole past"),
    Mistake("joined-without-separators", JoinedWithoutSeparators, "Tokens are joined as text without separators: [1, 23] and [12, 3] get the same key. Use a tuple.", "the whole past"),
    Mistake("sum-of-tokens", SumOfTokens, "The sum of a block's tokens is its key. Many blocks have that sum: use a tuple of all tokens.", "the whole past"),
    Mistake("set-of-tokens", SetOfTokens, "A set of the tokens is the key: how often each comes is lost. Use a tuple.", "the whole past"),
    Mistake("tokens-as-one-number", OneNumber, "A block's tokens are made into one number, as number * 31 + token: other tokens give the same.", "the whole past"),
    Mistake("sorted-tokens", SortedTokens, "The key does not hold the order of a block's tokens. Use a tuple of them as they come.", "the whole past"),
    Mistake("one-byte-a-token", OneByte, "Each token goes into the key as one byte. Tokens that differ by 256 look the same.", "the whole past"),
    Mistake("two-bytes-a-token", TwoBytes, "Each token goes into the key as two bytes. Vocabularies are larger than 65,536.", "the whole past"),
    Mistake("four-bytes-a-token", FourBytes, "Each token goes into the key as four bytes. Tokens are of any size: use a tuple.", "the whole past"),
    Mistake("sign-lost", SignLost, "The key holds the tokens without their signs. Use a tuple of them as they come.", "the whole past"),
    Mistake("single-precision", SinglePrecision, "The key holds the tokens as 32-bit floats, which round numbers above 2**24. Use a tuple of whole numbers.", "the whole past"),
    Mistake("double-precision", DoublePrecision, "The key holds the tokens as floats, which round numbers above 2**53. Use a tuple of whole numbers.", "the whole past"),
    Mistake("hash-trusted", HashTrusted, "Python's hash() is the key: hash(-1) == hash(-2), and so for tuples of them. Use the tuple itself, or a digest.", "the whole past"),
    Mistake("first-token-of-each", FirstTokenOfEach, "The key holds only the first token of each block.", "the whole past"),
    Mistake("last-token-of-each", LastTokenOfEach, "The key holds only the last token of each block.", "the whole past"),
    Mistake("only-first-block-looked-up", OnlyTheFirstBlockLooked, "Only the first block is looked up, and the rest is taken from the request that has it. Look up each block.", "found again"),
    Mistake("no-identity", NoIdentity, "The identity is not in the key. Another model or adapter makes other rows, and another tenant must not see these.", "identity"),
    Mistake("only-model", OnlyModel, "Of the identity only the model is in the key.", "identity"),
    Mistake("only-tenant", OnlyTenant, "Of the identity only the tenant is in the key.", "identity"),
    Mistake("no-tenant", NoTenant, "The tenant is not in the key: one customer is served from another one's prompt.", "identity"),
    Mistake("no-adapter", NoAdapter, "The adapter is not in the key. Another adapter makes other rows from the same tokens.", "identity"),
    Mistake("no-model", NoModel, "The model is not in the key. Another model makes other rows from the same tokens.", "identity"),
    Mistake("identity-joined", IdentityJoined, "The three texts are joined: ('ab', 'c', '') and ('a', 'bc', '') become one. Use a tuple.", "identity"),
    Mistake("empty-ones-left-out", EmptyOnesLeftOut, "Empty texts are left out: ('x', '', '') and ('', 'x', '') become one. Keep all three, in their places.", "identity"),
    Mistake("identity-as-a-set", IdentityAsASet, "The identity is in the key as a set: places and repeats are lost. Use a tuple.", "identity"),
    Mistake("identity-sorted", IdentitySorted, "The identity is sorted: a model's name and a tenant's can change places. Use a tuple as it comes.", "identity"),
    Mistake("joined-with-a-slash", JoinedWithASlash, "The three texts are joined with a slash, which a name may hold too. Use a tuple.", "identity"),
    Mistake("joined-with-a-zero", JoinedWithAZero, "The three texts are joined with a zero character, which a text may hold too. Use a tuple.", "identity"),
    Mistake("case-lost", CaseLost, "Small and capital letters are taken for the same. Leave the texts as they are.", "identity"),
    Mistake("stripped", Stripped, "Spaces around the texts are dropped. Leave the texts as they are.", "identity"),
    Mistake("identity-in-the-first-block-only", OnlyInTheFirstBlock, "Only the first block's key has the identity, and the later keys do not hold that key. Chain them, or put it into each.", "identity"),
    Mistake("one-identity-at-a-time", OneIdentityAtATime, "Everything is forgotten when another identity comes. Both may be kept: their keys differ.", "identity"),
    Mistake("never-finds", NeverFinds, "Nothing is ever found again: num_cached is always 0.", "found again"),
    Mistake("blocks-not-tokens", CountsBlocks, "admit() returns how many blocks are cached. Return tokens: times block_size.", "found again"),
    Mistake("whole-prompt-cached", WholePromptCached, "A prompt that is all there leaves nothing to compute. Look up at most (len(tokens) - 1) // block_size blocks.", "found again"),
    Mistake("one-token-less", OneTokenLess, "All blocks are found, and num_cached is one token less: that token would be written into a shared block. Stop a block earlier.", "found again"),
    Mistake("shared-block-written", OneBlockLessSaid, "num_cached leaves out the last block, but the table still has the found one there: it is written again while others read it.", "found again"),
    Mistake("last-block-never-found", LastBlockNeverFound, "The last full block is never looked up, also where tokens follow it. At most (len(tokens) - 1) // block_size.", "found again"),
    Mistake("only-one-block", OnlyOneBlock, "Only the first block is looked up. Go on to the first one that is not there.", "found again"),
    Mistake("only-whole-prompts", OnlyWholePrompts, "Blocks are used only when all of them are there. Use those up to the first that is missing.", "found again"),
    Mistake("partial-blocks-found", PartialBlocksFound, "A partly filled last block is found too. Only full blocks may be shared: somebody will write behind its tokens.", "found again"),
    Mistake("padded", Padded, "The last block is filled up with zeros and entered. Where a prompt has those tokens, rows are found that nobody computed.", "only what is computed"),
    Mistake("goes-on-after-a-gap", GoesOnAfterAGap, "Blocks behind a missing one are counted as cached. Stop at the first that is not there.", "given out again"),
    Mistake("only-held", OnlyHeld, "Blocks are forgotten when their last holder lets go. They stay findable until they are given out again.", "found again"),
    Mistake("only-released", OnlyReleased, "Blocks that are in use are not found. A block may have several holders.", "found again"),
    Mistake("only-the-newest", OnlyTheNewest, "Only the request computed last can be found. Keep all that lies in the pool.", "found again"),
    Mistake("shared-by-all-objects", SharedIndex, "The map belongs to the class, so that every index shares it. Make it in __init__.", "found again", leaks=True),
    Mistake("at-admit", AtAdmit, "Blocks are entered at admit(). Until computed() their rows are not there: enter them then.", "only what is computed"),
    Mistake("at-release", AtRelease, "Blocks are entered when the request ends. They can be shared from computed() on.", "found again"),
    Mistake("at-release-anyway", AtReleaseAnyway, "A request released before computed() is entered all the same. Its rows were never written.", "only what is computed"),
    Mistake("computed-marks-all", ComputedMarksAll, "computed() enters the blocks of all requests. Only those of this one are written.", "only what is computed"),
    Mistake("release-forgets-shared", ReleaseForgetsShared, "A request that ends before computed() makes the index forget what it had found. Others computed that: it stays.", "found again"),
    Mistake("found-only-once", FoundOnlyOnce, "A block that was found is taken out of the map. It can be found by any number of requests.", "found again"),
    Mistake("hits-not-counted", HitsNotCounted, "A found block keeps its number of holders. The new request is one more.", "found again"),
    Mistake("released-while-shared", ReleasedWhileShared, "release() gives blocks back that others still hold. Take one holder off; only at 0 it goes back.", "found again"),
    Mistake("stays-on-the-free-list", StaysOnTheFreeList, "A block found on the free list stays there, and will be given out while it is in use. Take it off.", "found again"),
    Mistake("stays-on-a-hidden-list", StaysOnAHiddenList, "num_free is right, but a block that is found stays on the list that new blocks are taken from.", "held and free"),
    Mistake("new-ones-first", NewOnesFirst, "New blocks are taken before the found ones are held, so a found one can be given out. Hold first.", "held and free"),
    Mistake("never-released", NeverReleased, "release() gives nothing back.", "found again"),
    Mistake("only-full-ones-released", OnlyFullOnesReleased, "The partly filled last block does not go back at release().", "found again"),
    Mistake("found-ones-never-released", FoundOnesNeverReleased, "A block that its first request left to others is never given back. The last holder gives it back, whoever that is.", "found again"),
    Mistake("free-means-unknown", FreeMeansUnknown, "num_free leaves out blocks that can still be found. Nobody holds them, so they count.", "found again"),
    Mistake("known-never-given-out", KnownNeverGivenOut, "A block that can still be found is never given out. Nobody holds it, so it may be: take it out of the map then.", "given out again"),
    Mistake("live-evicted", LiveEvicted, "When no block is free, one that a request still holds is taken. Refuse with ValueError.", "refusals"),
    Mistake("one-spare", OneSpare, "One block is always kept back. A request that takes the last one fits.", "held and free"),
    Mistake("block-too-many", BlockTooMany, "A prompt of whole blocks gets one block too many: ceil(len / block_size), not len // block_size + 1.", "found again"),
    Mistake("floor-blocks", FloorBlocks, "The table has no block for the tokens behind the last full one: round up.", "found again"),
    Mistake("only-new-in-the-table", OnlyNewInTheTable, "table() leaves out the blocks that were found. The request reads those too.", "found again"),
    Mistake("found-ones-last", FoundOnesLast, "The found blocks stand at the end of the table. They hold its first tokens.", "found again"),
    Mistake("found-ones-backwards", FoundOnesBackwards, "The found blocks stand in the table in reverse order.", "found again"),
    Mistake("stale-map", StaleMap, "A block that was given out again is still found under its old key. Take it out of the map when it is given out.", "given out again"),
    Mistake("forgotten-when-computed", ForgottenWhenComputed, "The old key goes only at the next computed(). Between admit() and that, it finds a block that is being written over.", "given out again"),
    Mistake("only-first-copy", OnlyFirstCopy, "When two requests computed the same, only the first one's block is kept in mind. When that goes, the other is still there: keep both.", "given out again"),
    Mistake("only-last-copy", OnlyLastCopy, "When two requests computed the same, only the last one's block is kept in mind. When that goes, the other is still there: keep both.", "given out again"),
    Mistake("all-copies-forgotten", AllCopiesForgotten, "When one block is given out, its key is forgotten, though another live block has the same rows. Take out the block only.", "given out again"),
    Mistake("room-for-the-whole-prompt", RoomForTheWholePrompt, "Found blocks are counted as needed. What others hold already takes no room.", "refusals"),
    Mistake("own-hits-as-room", FreeHitsCountedTwice, "Blocks that are found among the free ones are also counted as room for new ones.", "refusals"),
    Mistake("evicts-before-refusing", EvictsBeforeRefusing, "A refused request has emptied blocks on its way: what they held is no longer found. Count first.", "refusals"),
    Mistake("holds-before-refusing", HoldsBeforeRefusing, "A refused request goes on holding the blocks that it found. Count first, then hold.", "refusals"),
    Mistake("names-before-refusing", NamesBeforeRefusing, "A refused request stays known. It must be as if it had never come.", "refusals"),
    Mistake("takes-before-refusing", TakesBeforeRefusing, "A refused request keeps the blocks that it took before the pool was empty. Count first.", "refusals"),
    Mistake("gives-what-there-is", GivesWhatThereIs, "A request without room gets the blocks that are left. Refuse it with ValueError.", "refusals"),
    Mistake("none-when-full", NoneWhenFull, "A request without room gets None. Raise ValueError.", "refusals"),
    Mistake("memory-error-when-full", MemoryErrorWhenFull, "Without room a MemoryError is raised. The text asks for ValueError.", "refusals"),
    Mistake("known-admitted-again", KnownAdmittedAgain, "A name that is there gets a new table, and nobody gives the old blocks back. Refuse it.", "refusals"),
    Mistake("known-starts-again", KnownStartsAgain, "A name that is there is released and admitted anew. Refuse it: somebody is still reading.", "refusals"),
    Mistake("empty-admitted", EmptyAdmitted, "A request without tokens is admitted. Refuse it with ValueError.", "refusals"),
    Mistake("names-never-forgotten", NamesNeverForgotten, "A name that was released is refused for ever. Then it is unknown, and may come back.", "refusals"),
    Mistake("key-error-for-unknown", KeyErrorForUnknown, "An unknown request raises KeyError. The text asks for ValueError.", "refusals"),
    Mistake("unknown-released", UnknownIgnored, "release() of an unknown request does nothing. Raise ValueError.", "refusals"),
    Mistake("unknown-has-no-blocks", UnknownHasNoBlocks, "table() of an unknown request is empty. Raise ValueError.", "refusals"),
    Mistake("unknown-computed", UnknownComputed, "computed() of an unknown request does nothing. Raise ValueError.", "refusals"),
    Mistake("still-known", StillKnown, "A request that was released still has a table. It is unknown then: raise ValueError.", "refusals"),
)  # fmt: skip


class Digests(Base):
    """sha256 of the digest before and the block."""

    def root(self, identity):
        return hashlib.sha256(repr(list(identity)).encode()).digest()

    def link(self, parent, tokens, identity):
        return hashlib.sha256(parent + ",".join(map(str, tokens)).encode()).digest()


class EverythingInTheKey(Base):
    """The identity and all tokens up to the block's end."""

    def chain(self, tokens, identity):
        size = self.block_size
        ends = range(size, len(tokens) + 1, size)
        return [(*identity, *tokens[:end]) for end in ends]


class IdentityInEach(Base):
    def root(self, identity):
        return None

    def link(self, parent, tokens, identity):
        return (parent, tuple(identity), tuple(tokens))


class HashAndTokensCompared(Base):
    """A hash finds the candidates, the tokens decide."""

    def chain(self, tokens, identity):
        size = self.block_size
        return [Exact(identity, tokens[: i + size]) for i in range(0, len(tokens) - size + 1, size)]


class Exact:
    def __init__(self, identity, tokens):
        self.identity, self.tokens = tuple(identity), tuple(tokens)

    def __hash__(self):
        return sum(self.tokens) % 7  # collides all the time

    def __eq__(self, other):
        return self.identity == other.identity and self.tokens == other.tokens


class LastReleasedFirst(Base):
    """The newest free block is given out first."""

    def give_out(self):
        block = self.free.pop()
        self.forget(block)
        self.holders[block] = 1
        return block


class EndFirst(Base):
    """The end of a prompt is given out before its beginning."""

    def release(self, request):
        self.known(request)
        self.tables[request].reverse()
        super().release(request)


class UnknownOnesFirst(Base):
    """Blocks with nothing to find are given out before others."""

    def give_out(self):
        self.free.sort(key=lambda block: block in self.key_of)
        return super().give_out()


class Numbers(Base):
    """Each pair (number of the key before, tokens) gets a number, which is never given again."""

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.numbers = {}

    def link(self, parent, tokens, identity):
        return self.numbers.setdefault((parent, tuple(tokens)), len(self.numbers))

    def root(self, identity):
        return self.numbers.setdefault(tuple(identity), len(self.numbers))


class Merged(Base):
    """A block whose rows are there already is given back at computed(), and the table names the other one."""

    def computed(self, request):
        self.known(request)
        self.done[request] = True
        table = self.tables[request]
        for i, key in enumerate(self.keys[request]):
            same = [block for block in self.blocks.get(key, ()) if self.holders[block] > 0]
            if same and same[0] != table[i]:
                self.hold(same[0])
                self.let_go(table[i])
                table[i] = same[0]
            self.register(key, table[i])


class Trie:
    """A tree of blocks: a node for each key, with its children by their tokens."""

    def __init__(self, num_blocks, block_size):
        self.size, self.trees, self.requests = block_size, {}, {}
        self.free, self.node_of, self.refs = OrderedDict.fromkeys(range(num_blocks)), {}, Counter()

    @property
    def num_free(self):
        return len(self.free)

    def _full(self, tokens):
        return [tuple(tokens[i : i + self.size]) for i in range(0, len(tokens) - self.size + 1, self.size)]

    def admit(self, request, tokens, identity):
        if request in self.requests or len(tokens) == 0:
            raise ValueError("no such request")
        node, hits = self.trees.setdefault(repr(identity), {"blocks": set(), "next": {}}), []
        for part in self._full(tokens[:-1]):
            node = node["next"].get(part)
            if node is None or not node["blocks"]:
                break
            hits.append(min(node["blocks"], key=lambda block: block in self.free))
        need = (len(tokens) + self.size - 1) // self.size - len(hits)
        if need > len([block for block in self.free if block not in hits]):
            raise ValueError(f"{need} blocks needed")
        for block in hits:
            self.free.pop(block, None)
        table = [*hits, *(self._next() for _ in range(need))]
        self.refs.update(table)
        self.requests[request] = (table, list(tokens), repr(identity))
        return self.size * len(hits)

    def _next(self):
        block, _ = self.free.popitem(last=False)
        if block in self.node_of:
            self.node_of.pop(block)["blocks"].discard(block)
        return block

    def _get(self, request):
        try:
            return self.requests[request]
        except KeyError:
            raise ValueError(f"no request {request}") from None

    def table(self, request):
        return tuple(self._get(request)[0])

    def computed(self, request):
        table, tokens, identity = self._get(request)
        node = self.trees[identity]
        for part, block in zip(self._full(tokens), table):
            node = node["next"].setdefault(part, {"blocks": set(), "next": {}})
            node["blocks"].add(block)
            self.node_of[block] = node

    def release(self, request):
        table, _, _ = self._get(request)
        del self.requests[request]
        self.refs.subtract(table)
        for block in table:
            if self.refs[block] == 0:
                self.free[block] = None


class Searched:
    """No map at all: each block knows what lies in it, and all are looked through."""

    def __init__(self, num_blocks, block_size):
        self.size, self.content = block_size, [None] * num_blocks
        self.holders, self.line = [set() for _ in range(num_blocks)], deque(range(num_blocks))
        self.all = {}

    @property
    def num_free(self):
        return sum(not names for names in self.holders)

    def admit(self, request, tokens, identity):
        if request in self.all:
            raise ValueError(request)
        if not tokens:
            raise ValueError("empty")
        table = []
        for end in range(self.size, len(tokens), self.size):
            want = (identity, tokens[:end])
            same = [block for block, content in enumerate(self.content) if content == want]
            if not same:
                break
            table.append(max(same, key=lambda block: len(self.holders[block])))
        cached = len(table) * self.size
        free = [block for block in self.line if not self.holders[block] and block not in table]
        while len(table) * self.size < len(tokens):
            if not free:
                raise ValueError("full")
            table.append(free.pop(0))
        for block in table[cached // self.size :]:
            self.content[block] = None
        for block in table:
            self.holders[block].add(request)
        self.all[request] = (tokens, identity, table)
        return cached

    def known(self, request):
        if request not in self.all:
            raise ValueError(request)
        return self.all[request]

    def table(self, request):
        return self.known(request)[2]

    def computed(self, request):
        tokens, identity, table = self.known(request)
        for i in range(len(tokens) // self.size):
            self.content[table[i]] = (identity, tokens[: (i + 1) * self.size])

    def release(self, request):
        for block in self.known(request)[2]:
            self.holders[block].discard(request)
            if not self.holders[block]:
                self.line.remove(block)
                self.line.append(block)
        del self.all[request]


VARIANTS = (
    Variant("nested tuples", Base),
    Variant("a chain of digests", Digests),
    Variant("identity and all tokens in the key", EverythingInTheKey),
    Variant("identity in each block's key", IdentityInEach),
    Variant("hashes that collide, tokens compared", HashAndTokensCompared),
    Variant("last released, first given out", LastReleasedFirst),
    Variant("the end of a prompt first", EndFirst),
    Variant("unknown blocks first", UnknownOnesFirst),
    Variant("numbers for keys", Numbers),
    Variant("copies merged", Merged),
    Variant("a tree", Trie),
    Variant("no map", Searched),
)
