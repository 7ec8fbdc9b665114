"""Wrong and right ways to let layers share a cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch

OWNS, ONE, MANY = "who owns", "one pass", "many passes"
MEMORY, AGAIN, REFUSALS = "memory", "tried again", "refusals"


class Base:
    """One buffer for K and one for V for each owner, and how far each owner has written."""

    def __init__(self, num_layers, share, batch_size, num_kv_heads, max_len, head_dim):
        self.L, self.share, self.max_len = num_layers, share, max_len
        self.shape = (batch_size, num_kv_heads, max_len, head_dim)
        self.used = 0
        self.make()

    def owners(self):
        return -(-self.L // self.share)

    def make(self):
        self.K = [self.buffer() for _ in range(self.owners())]
        self.V = [self.buffer() for _ in range(self.owners())]
        self.ends = [0] * len(self.K)

    def buffer(self):
        return torch.empty(self.shape, dtype=torch.float64)

    def __len__(self):
        return self.used

    @property
    def nbytes(self):
        return sum(buffer.nbytes for buffer in (*self.K, *self.V))

    def insist_on_layer(self, layer):
        if not 0 <= layer < self.L:
            raise ValueError(f"layer {layer} of {self.L}")

    def owner_of(self, layer):
        return layer // self.share * self.share

    def owner(self, layer):
        self.insist_on_layer(layer)
        return self.owner_of(layer)

    def group(self, layer):
        return layer // self.share

    def insist_on_owner(self, layer):
        if layer % self.share:
            raise ValueError(f"layer {layer} has no rows of its own")

    def insist_on_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len}, {num_tokens} more asked")

    def append(self, layer, k, v):
        self.insist_on_layer(layer)
        self.insist_on_owner(layer)
        self.insist_on_room(k.shape[2])
        group = self.group(layer)
        self.write(group, k, v)
        return self.shown(group, self.ends[group])

    def write(self, group, k, v):
        end = self.used + k.shape[2]
        self.K[group][:, :, self.used : end] = k
        self.V[group][:, :, self.used : end] = v
        self.ends[group] = end

    def shown(self, group, end):
        return self.K[group][:, :, :end], self.V[group][:, :, :end]

    def read(self, layer):
        self.insist_on_layer(layer)
        group = self.group(layer)
        return self.shown(group, self.ends[group])

    def insist_on_number(self, num_tokens):
        if not 0 <= num_tokens <= self.max_len - self.used:
            raise ValueError(f"holds {self.used} of {self.max_len}, advance by {num_tokens} asked")

    def advance(self, num_tokens):
        self.insist_on_number(num_tokens)
        self.used += num_tokens
        self.ends = [self.used] * len(self.ends)


# What is not advanced, and what is refused in the middle of a pass.


class KeepsTheRest(Base):
    def advance(self, num_tokens):
        self.insist_on_number(num_tokens)
        self.used += num_tokens


class AdvancesToTheEnd(Base):
    def advance(self, num_tokens):
        self.insist_on_number(num_tokens)
        self.used = max(self.ends)
        self.ends = [self.used] * len(self.ends)


class NeverByZero(Base):
    def insist_on_number(self, num_tokens):
        if not 0 < num_tokens <= self.max_len - self.used:
            raise ValueError(f"advance by {num_tokens} asked")


class FirstTryTakesRoom(Base):
    def append(self, layer, k, v):
        self.insist_on_layer(layer)
        if layer % self.share == 0 and self.ends[self.group(layer)] + k.shape[2] > self.max_len:
            raise ValueError("no room")
        return super().append(layer, k, v)


class RefusedAdvanceEndsThePass(Base):
    def insist_on_number(self, num_tokens):
        self.ends = [self.used] * len(self.ends)
        super().insist_on_number(num_tokens)


class RefusedAppendEndsThePass(Base):
    def insist_on_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            self.ends = [self.used] * len(self.ends)
        super().insist_on_room(num_tokens)


# Who owns.


class OwnerIsGroup(Base):
    def owner_of(self, layer):
        return layer // self.share


class OwnerIsLast(Base):
    def owner_of(self, layer):
        return min(layer // self.share * self.share + self.share, self.L) - 1


class OwnerIsPlace(Base):
    def owner_of(self, layer):
        return layer % self.share


class OwnersFirst(Base):
    """The first layers own, and the others take them in turn."""

    def owner_of(self, layer):
        return layer % self.owners()


class ShareIsNumberOfGroups(Base):
    def owner_of(self, layer):
        size = -(-self.L // self.share)
        return layer // size * size


class LayerBefore(Base):
    def owner_of(self, layer):
        return layer - (layer % self.share > 0)


class FirstLayerAlone(Base):
    def owner_of(self, layer):
        return 0 if layer == 0 else (layer - 1) // self.share * self.share + 1


class AlwaysPairs(Base):
    def owner_of(self, layer):
        return layer // 2 * 2


class OwnsItself(Base):
    def owner_of(self, layer):
        return layer


class RestJoins(Base):
    """A last group that would be smaller joins the one before it."""

    def owner_of(self, layer):
        return min(layer // self.share, max(self.L // self.share, 1) - 1) * self.share


class LayerZeroForAll(Base):
    def owner_of(self, layer):
        return 0


class RestOwnsItself(Base):
    """Layers of a last group that is smaller do not share."""

    def owner_of(self, layer):
        return layer if layer >= self.L // self.share * self.share else super().owner_of(layer)


# One pass.


class OwnersRoundedDown(Base):
    def owners(self):
        return max(self.L // self.share, 1)


class ReadsBeforeThisPass(Base):
    def read(self, layer):
        self.insist_on_layer(layer)
        return self.shown(self.group(layer), self.used)


class ReadsOneTokenLess(Base):
    """The newest token is only shown to the owner."""

    def read(self, layer):
        self.insist_on_layer(layer)
        group = self.group(layer)
        return self.shown(group, max(self.ends[group] - 1, 0))


class ReadsLayerZero(Base):
    def read(self, layer):
        self.insist_on_layer(layer)
        return self.shown(0, self.ends[0])


class ReadsNextOwner(Base):
    """Layers that share look at the owner behind them."""

    def read(self, layer):
        self.insist_on_layer(layer)
        group = min(-(-layer // self.share), len(self.K) - 1)
        return self.shown(group, self.ends[group])


class ReadsLayerNumber(Base):
    """The buffers are those of the owners, and looked up by the layer."""

    def read(self, layer):
        self.insist_on_layer(layer)
        return self.shown(layer, self.ends[layer])


class OneBuffer(Base):
    """All groups write to the same rows."""

    def make(self):
        super().make()
        self.K, self.V = self.K[:1] * len(self.K), self.V[:1] * len(self.V)


class OneBufferOfKeys(Base):
    def make(self):
        super().make()
        self.K = self.K[:1] * len(self.K)


class ValuesAreKeys(Base):
    def write(self, group, k, v):
        super().write(group, k, k)


class Swapped(Base):
    def shown(self, group, end):
        return super().shown(group, end)[::-1]


class SwappedInRead(Base):
    def read(self, layer):
        return super().read(layer)[::-1]


class WholeBuffer(Base):
    def shown(self, group, end):
        return self.K[group], self.V[group]


class WholeBufferInRead(Base):
    def read(self, layer):
        self.insist_on_layer(layer)
        return self.shown(self.group(layer), self.max_len)


class TokensBeforeHeads(Base):
    def shown(self, group, end):
        K, V = super().shown(group, end)
        return K.transpose(1, 2), V.transpose(1, 2)


class FirstSequence(Base):
    def write(self, group, k, v):
        super().write(group, k[:1], v[:1])


class AdvancesInAppend(Base):
    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        self.used += k.shape[2]
        return shown

    def advance(self, num_tokens):
        pass


class LastOwnerAdvances(Base):
    """The last owner's append counts already."""

    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        if self.group(layer) == len(self.K) - 1:
            self.used += k.shape[2]
        return shown

    def advance(self, num_tokens):
        pass


class AdvancesByOwners(Base):
    def advance(self, num_tokens):
        super().advance(num_tokens)
        self.used += (len(self.K) - 1) * num_tokens


class NeverAdvances(Base):
    def advance(self, num_tokens):
        pass


class AppendReturnsNothing(Base):
    def append(self, layer, k, v):
        super().append(layer, k, v)


# Many passes.


class AppendShowsNewOnly(Base):
    def append(self, layer, k, v):
        super().append(layer, k, v)
        return k.clone(), v.clone()


class ReadShowsNewOnly(Base):
    def read(self, layer):
        self.insist_on_layer(layer)
        group = self.group(layer)
        start = self.used if self.ends[group] > self.used else 0
        return self.K[group][:, :, start : self.ends[group]], self.V[group][:, :, start : self.ends[group]]


class AlwaysFromZero(Base):
    def write(self, group, k, v):
        self.K[group][:, :, : k.shape[2]] = k
        self.V[group][:, :, : k.shape[2]] = v
        self.ends[group] = self.used + k.shape[2]


class AdvancesTo(Base):
    def advance(self, num_tokens):
        self.used = num_tokens
        self.ends = [self.used] * len(self.ends)


class AdvancesByOne(Base):
    def advance(self, num_tokens):
        super().advance(min(num_tokens, 1))


class OneEndForAll(Base):
    """One number tells how far this pass has written, whichever owner it was."""

    def read(self, layer):
        self.insist_on_layer(layer)
        return self.shown(self.group(layer), max(self.ends))


class LastSlotUnused(Base):
    def insist_on_room(self, num_tokens):
        if self.used + num_tokens >= self.max_len:
            raise ValueError("full")


class NothingNewRefused(Base):
    """A read before the owner's append is taken for a mistake."""

    def read(self, layer):
        self.insist_on_layer(layer)
        group = self.group(layer)
        if any(end > self.used for end in self.ends) and self.ends[group] == self.used:
            raise ValueError(f"the owner of layer {layer} has not appended yet")
        return super().read(layer)


class OnTheClass(Base):
    """The buffers are on the class: the second cache of a size writes into the first."""

    made = {}

    def make(self):
        super().make()
        key = (self.L, self.share, self.shape)
        self.K, self.V = self.made.setdefault(key, (self.K, self.V))


# Memory.


class BufferForEachLayer(Base):
    """Every layer has memory, used or not; nbytes tells what would do."""

    def make(self):
        super().make()
        self.idle = [self.buffer() for _ in range(2 * (self.L - len(self.K)))]


class CountsAllLayers(Base):
    @property
    def nbytes(self):
        return super().nbytes // len(self.K) * self.L


class CountsRoundedDown(Base):
    @property
    def nbytes(self):
        return super().nbytes // len(self.K) * (self.L // self.share)


class CountsFraction(Base):
    """Bytes of all layers over share, as if a group could be cut."""

    @property
    def nbytes(self):
        return super().nbytes // len(self.K) * self.L // self.share


class CountsKeys(Base):
    @property
    def nbytes(self):
        return super().nbytes // 2


class CountsElements(Base):
    @property
    def nbytes(self):
        return super().nbytes // 8


class CountsTokensHeld(Base):
    @property
    def nbytes(self):
        return super().nbytes // self.max_len * self.used


class Float32(Base):
    def buffer(self):
        return torch.empty(self.shape, dtype=torch.float32)


class Grows(Base):
    """Nothing is there before it is needed; nbytes tells what it could grow to."""

    def buffer(self):
        return torch.empty(self.shape, dtype=torch.float64)[:, :, :0].clone()

    def write(self, group, k, v):
        self.K[group] = torch.cat([self.K[group][:, :, : self.used], k], dim=2)
        self.V[group] = torch.cat([self.V[group][:, :, : self.used], v], dim=2)
        self.ends[group] = self.used + k.shape[2]

    @property
    def nbytes(self):
        B, Hkv, max_len, D = self.shape
        return 2 * self.owners() * B * Hkv * max_len * D * 8


class KeepsWhatWasRead(Base):
    """Layers that share keep a copy of what they have read."""

    def make(self):
        super().make()
        self.copies = {}

    def read(self, layer):
        K, V = super().read(layer)
        if layer % self.share:
            self.copies[layer] = K.clone(), V.clone()
        return K, V


class KeepsTheChunk(Base):
    def write(self, group, k, v):
        super().write(group, k, v)
        self.last = k.clone(), v.clone()


# Tried again.


class SecondTryBehind(Base):
    """A second append in one pass goes behind the first."""

    def write(self, group, k, v):
        start, end = self.ends[group], self.ends[group] + k.shape[2]
        self.K[group][:, :, start:end] = k
        self.V[group][:, :, start:end] = v
        self.ends[group] = end


class SecondTryRefused(Base):
    def insist_on_owner(self, layer):
        super().insist_on_owner(layer)
        if self.ends[self.group(layer)] > self.used:
            raise ValueError(f"layer {layer} has appended in this pass")


class LongestTryShown(Base):
    """How far an owner has written only ever grows."""

    def write(self, group, k, v):
        before = self.ends[group]
        super().write(group, k, v)
        self.ends[group] = max(before, self.ends[group])


class CallersTensors(Base):
    """The rows of this pass stay the caller's until advance copies them."""

    def make(self):
        super().make()
        self.waiting = {}

    def write(self, group, k, v):
        self.waiting[group] = k, v
        self.ends[group] = self.used + k.shape[2]

    def shown(self, group, end):
        K, V = super().shown(group, self.used)
        if group not in self.waiting:
            return K, V
        k, v = self.waiting[group]
        return torch.cat([K, k], dim=2), torch.cat([V, v], dim=2)

    def advance(self, num_tokens):
        for group, (k, v) in self.waiting.items():
            Base.write(self, group, k, v)
        self.waiting.clear()
        super().advance(num_tokens)


class AdvancesByWhatCame(Base):
    """advance counts what layer 0 has appended since the last one, both tries together."""

    waiting = 0

    def append(self, layer, k, v):
        shown = super().append(layer, k, v)
        self.waiting += k.shape[2] if layer == 0 else 0
        return shown

    def advance(self, num_tokens):
        self.insist_on_number(num_tokens)
        super().advance(max(num_tokens, self.waiting))
        self.waiting = 0


# Refusals.


class SharersOverwrite(Base):
    """A layer that shares may append too, into its owner's rows."""

    def insist_on_owner(self, layer):
        pass


class SharersIgnored(Base):
    """What a layer appends that shares is dropped in silence."""

    def append(self, layer, k, v):
        self.insist_on_layer(layer)
        return super().append(layer, k, v) if layer % self.share == 0 else self.read(layer)


class SharersGetNone(Base):
    def append(self, layer, k, v):
        self.insist_on_layer(layer)
        return super().append(layer, k, v) if layer % self.share == 0 else None


class SharersIndexError(Base):
    def insist_on_owner(self, layer):
        if layer % self.share:
            raise IndexError(f"layer {layer} has no rows of its own")


class NegativeLayers(Base):
    def insist_on_layer(self, layer):
        if layer >= self.L:
            raise ValueError(f"layer {layer} of {self.L}")


class NegativeLayersFromTheEnd(Base):
    """Layer -1 is the last one, as in a list."""

    def insist_on_layer(self, layer):
        if not -self.L <= layer < self.L:
            raise ValueError(f"layer {layer} of {self.L}")

    def group(self, layer):
        return layer % self.L // self.share

    def owner_of(self, layer):
        return layer % self.L // self.share * self.share

    def insist_on_owner(self, layer):
        super().insist_on_owner(layer % self.L)


class OneLayerMore(Base):
    def insist_on_layer(self, layer):
        if not 0 <= layer <= self.L:
            raise ValueError(f"layer {layer} of {self.L}")


class FullGroups(Base):
    """Layers are counted as if the last group had all of its layers."""

    def insist_on_layer(self, layer):
        if not 0 <= layer < len(self.K) * self.share + 1:
            raise ValueError(f"layer {layer} of {self.L}")

    def group(self, layer):
        return min(layer // self.share, len(self.K) - 1)


class LayerIndexError(Base):
    def insist_on_layer(self, layer):
        if not 0 <= layer < self.L:
            raise IndexError(f"layer {layer} of {self.L}")


class OwnerUnchecked(Base):
    """owner() answers for any number."""

    def owner(self, layer):
        return self.owner_of(layer)


class ReadUnchecked(Base):
    """read() takes numbers from the end, as a list does."""

    def read(self, layer):
        group = self.group(layer) % len(self.K)
        return self.shown(group, self.ends[group])


class NoRoomUnseen(Base):
    def insist_on_room(self, num_tokens):
        pass


class CutToRoom(Base):
    """Of tokens that do not fit, the first ones are kept."""

    def insist_on_room(self, num_tokens):
        pass

    def write(self, group, k, v):
        room = self.max_len - self.used
        super().write(group, k[:, :, :room], v[:, :, :room])


class NoRoomIndexError(Base):
    def insist_on_room(self, num_tokens):
        if self.used + num_tokens > self.max_len:
            raise IndexError("full")


class FullOnlyWhenFull(Base):
    """Whether there is room is asked before the tokens are counted."""

    def insist_on_room(self, num_tokens):
        if self.used >= self.max_len:
            raise ValueError("full")


class CountsBeforeRefusing(Base):
    def append(self, layer, k, v):
        self.insist_on_layer(layer)
        self.insist_on_owner(layer)
        self.ends[self.group(layer)] = min(self.used + k.shape[2], self.max_len)
        return super().append(layer, k, v)


class WritesBeforeRefusing(Base):
    """The rows that fit are written, then the rest is refused."""

    def insist_on_room(self, num_tokens):
        pass

    def write(self, group, k, v):
        room = self.max_len - self.used
        super().write(group, k[:, :, :room], v[:, :, :room])
        if k.shape[2] > room:
            raise ValueError("no room for all of it")


class AdvanceUnchecked(Base):
    def insist_on_number(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("negative")


class AdvanceBackwards(Base):
    def insist_on_number(self, num_tokens):
        if num_tokens > self.max_len - self.used:
            raise ValueError("no room")


class AdvanceClamped(Base):
    """A number that cannot be is moved to the nearest that can."""

    def advance(self, num_tokens):
        super().advance(max(0, min(num_tokens, self.max_len - self.used)))


MISTAKES = (
    Mistake(
        "owner-is-group",
        OwnerIsGroup,
        "owner() gives the number of the group. Wanted is a layer: the first of the group, group * share.",
        OWNS,
    ),
    Mistake(
        "owner-is-last",
        OwnerIsLast,
        "owner() gives the last layer of a group. Its first layer comes first in a pass, so that one owns.",
        OWNS,
    ),
    Mistake(
        "owner-is-place",
        OwnerIsPlace,
        "owner() gives layer % share, the place within the group. The owner is layer // share * share.",
        OWNS,
    ),
    Mistake(
        "owners-first",
        OwnersFirst,
        "You deal layers out in turn. Neighbours share: layers 0 to share - 1 are the first group.",
        OWNS,
    ),
    Mistake(
        "share-is-number-of-groups",
        ShareIsNumberOfGroups,
        "You make `share` groups. `share` is how many layers one group has.",
        OWNS,
    ),
    Mistake(
        "layer-before",
        LayerBefore,
        "owner() gives the layer before. With three to a group, the third one's owner is two layers before it.",
        OWNS,
    ),
    Mistake(
        "first-layer-alone",
        FirstLayerAlone,
        "Layer 0 stands alone with you, and groups begin at layer 1. The first group is layers 0 to share - 1.",
        OWNS,
    ),
    Mistake("always-pairs", AlwaysPairs, "Your groups always have two layers. They have `share` of them.", OWNS),
    Mistake("owns-itself", OwnsItself, "owner() gives the layer itself. Only the first of a group owns.", OWNS),
    Mistake(
        "rest-joins",
        RestJoins,
        "A last group that is smaller joins the one before it. It is a group of its own, with an owner.",
        OWNS,
    ),
    Mistake("layer-zero-for-all", LayerZeroForAll, "owner() is always 0. Each group has an owner of its own.", OWNS),
    Mistake(
        "rest-owns-itself",
        RestOwnsItself,
        "Layers of a last group that is smaller own themselves with you. They share like the others.",
        OWNS,
    ),
    Mistake(
        "owners-rounded-down",
        OwnersRoundedDown,
        "5 layers in pairs have three owners, not two: the last group counts too. Round up.",
        ONE,
    ),
    Mistake(
        "reads-before-this-pass",
        ReadsBeforeThisPass,
        "read() shows the tokens of the passes before. Those that the owner appended in this pass belong to it.",
        ONE,
    ),
    Mistake(
        "reads-one-token-less",
        ReadsOneTokenLess,
        "read() leaves the newest token out. A layer that shares sees all that its owner sees.",
        ONE,
    ),
    Mistake("reads-layer-zero", ReadsLayerZero, "read() always shows layer 0. Each group has its own rows.", ONE),
    Mistake(
        "reads-next-owner",
        ReadsNextOwner,
        "read() shows a layer the owner behind it. A group's owner is its first layer: round layer / share down.",
        ONE,
    ),
    Mistake(
        "reads-layer-number",
        ReadsLayerNumber,
        "You look a buffer up by the layer. There is one for each owner: look it up by layer // share.",
        ONE,
    ),
    Mistake("one-buffer", OneBuffer, "All groups write to the same rows. Each owner needs rows of its own.", ONE),
    Mistake(
        "one-buffer-of-keys",
        OneBufferOfKeys,
        "The keys of all groups lie in one buffer, so the last owner writes over the others. Values are right.",
        ONE,
    ),
    Mistake("values-are-keys", ValuesAreKeys, "You write k into both buffers. V takes v.", ONE),
    Mistake("swapped", Swapped, "You give back (V, K). The pair is (K, V).", ONE),
    Mistake("swapped-in-read", SwappedInRead, "read() gives (V, K), append() gives (K, V). Both give (K, V).", ONE),
    Mistake("whole-buffer", WholeBuffer, "You give all max_len rows. Only those with tokens may be seen.", ONE),
    Mistake(
        "whole-buffer-in-read",
        WholeBufferInRead,
        "read() gives all max_len rows. Only those that the owner has written may be seen.",
        ONE,
    ),
    Mistake(
        "tokens-before-heads",
        TokensBeforeHeads,
        "You give (B, S, Hkv, D). Heads come before tokens: (B, Hkv, S, D).",
        ONE,
    ),
    Mistake("first-sequence", FirstSequence, "Every sequence gets the rows of the first. Write all of them.", ONE),
    Mistake(
        "advances-in-append",
        AdvancesInAppend,
        "append() counts, once for each owner. The length changes once for a pass, in advance().",
        ONE,
    ),
    Mistake(
        "last-owner-advances",
        LastOwnerAdvances,
        "The last owner's append() counts, before its group has read. Leave it to advance().",
        ONE,
    ),
    Mistake(
        "advances-by-owners",
        AdvancesByOwners,
        "advance(n) counts n for each owner. All owners hold the same n tokens: count them once.",
        ONE,
    ),
    Mistake("never-advances", NeverAdvances, "advance() does nothing. From then on its tokens are held.", ONE),
    Mistake("append-returns-nothing", AppendReturnsNothing, "append() returns nothing. It gives K and V.", ONE),
    Mistake(
        "append-shows-new-only",
        AppendShowsNewOnly,
        "append() gives the new tokens only. Attention needs all of them, the ones before included.",
        MANY,
    ),
    Mistake(
        "read-shows-new-only",
        ReadShowsNewOnly,
        "read() gives the tokens of this pass only. Attention needs the ones before as well.",
        MANY,
    ),
    Mistake("always-from-zero", AlwaysFromZero, "You write every chunk at row 0. It goes behind what is held.", MANY),
    Mistake("advances-to", AdvancesTo, "advance(n) sets the length to n. It adds n to it.", MANY),
    Mistake("advances-by-one", AdvancesByOne, "advance(n) adds 1. A pass may have n tokens.", ONE),
    Mistake(
        "one-end-for-all",
        OneEndForAll,
        "When one owner has appended, all layers show new rows. An owner that has not yet shows what it holds.",
        MANY,
    ),
    Mistake(
        "last-slot-unused",
        LastSlotUnused,
        "You refuse the token that fills the cache. max_len tokens fit, the last one too.",
        MANY,
    ),
    Mistake(
        "nothing-new-refused",
        NothingNewRefused,
        "read() refuses where the owner has not appended in this pass. It shows the tokens held, then.",
        MANY,
    ),
    Mistake(
        "on-the-class",
        OnTheClass,
        "Two caches share their rows, which are kept on the class. Make them in __init__.",
        MANY,
    ),
    Mistake(
        "buffer-for-each-layer",
        BufferForEachLayer,
        "You take memory for every layer. Those that share need none: that is what sharing is for.",
        MEMORY,
    ),
    Mistake("counts-all-layers", CountsAllLayers, "nbytes counts every layer. Only owners have rows.", MEMORY),
    Mistake(
        "counts-rounded-down",
        CountsRoundedDown,
        "nbytes rounds the owners down. The last group has an owner too: round up.",
        MEMORY,
    ),
    Mistake(
        "counts-fraction",
        CountsFraction,
        "nbytes is that of all layers over share. A smaller last group still needs a whole owner.",
        MEMORY,
    ),
    Mistake("counts-keys", CountsKeys, "nbytes counts keys or values, not both: the factor 2.", MEMORY),
    Mistake("counts-elements", CountsElements, "nbytes counts numbers. Each takes 8 bytes in float64.", MEMORY),
    Mistake(
        "counts-tokens-held",
        CountsTokensHeld,
        "nbytes counts the tokens held. All max_len rows are taken from the start.",
        MEMORY,
    ),
    Mistake("float32", Float32, "You keep float32. The rows come in float64, and take 8 bytes for a number.", MEMORY),
    Mistake(
        "grows",
        Grows,
        "Your buffers grow with the tokens. All memory is taken at the start, so that it cannot be missing later.",
        MEMORY,
    ),
    Mistake(
        "keeps-what-was-read",
        KeepsWhatWasRead,
        "Layers that share keep copies of what they read. They look at the owner's rows, and keep nothing.",
        MEMORY,
    ),
    Mistake("keeps-the-chunk", KeepsTheChunk, "The last chunk is kept a second time, beside the buffers.", MEMORY),
    Mistake(
        "second-try-behind",
        SecondTryBehind,
        "A second append in one pass goes behind the first. Before advance() nothing counts: it goes over it.",
        AGAIN,
    ),
    Mistake(
        "second-try-refused",
        SecondTryRefused,
        "An owner that has appended is refused until advance(). A pass that failed is run again from its start.",
        AGAIN,
    ),
    Mistake(
        "longest-try-shown",
        LongestTryShown,
        "After a shorter second try, tokens of the first are still shown. The newest append tells where the rows end.",
        AGAIN,
    ),
    Mistake(
        "callers-tensors",
        CallersTensors,
        "You keep the caller's tensors until advance(). It reuses them for the next layer: copy at once.",
        AGAIN,
    ),
    Mistake(
        "advances-by-what-came",
        AdvancesByWhatCame,
        "advance() counts what was appended, both tries of a pass together. It counts what it is told.",
        AGAIN,
    ),
    Mistake(
        "keeps-the-rest",
        KeepsTheRest,
        "After advance(n), rows that it did not count are still shown. A new pass begins: only what is held counts.",
        AGAIN,
    ),
    Mistake(
        "advances-to-the-end",
        AdvancesToTheEnd,
        "advance(n) holds all that was appended, whatever n is. It holds the first n tokens of the pass.",
        AGAIN,
    ),
    Mistake("never-by-zero", NeverByZero, "advance(0) is refused. Only numbers below 0 are.", AGAIN),
    Mistake(
        "first-try-takes-room",
        FirstTryTakesRoom,
        "A first append of the same pass takes room from the second. Before advance() nothing counts.",
        AGAIN,
    ),
    Mistake(
        "refused-advance-ends-the-pass",
        RefusedAdvanceEndsThePass,
        "A refused advance() drops what the owners appended in this pass. A refused call changes nothing.",
        REFUSALS,
    ),
    Mistake(
        "refused-append-ends-the-pass",
        RefusedAppendEndsThePass,
        "A refused append() drops what the owners appended in this pass. A refused call changes nothing.",
        REFUSALS,
    ),
    Mistake(
        "sharers-overwrite",
        SharersOverwrite,
        "A layer that shares may append with you, over its owner's rows. Refuse with ValueError.",
        REFUSALS,
    ),
    Mistake(
        "sharers-ignored",
        SharersIgnored,
        "What a sharing layer appends is dropped in silence, and read() answers. Refuse with ValueError.",
        REFUSALS,
    ),
    Mistake(
        "sharers-get-none",
        SharersGetNone,
        "append() to a layer that shares gives None. Whoever calls goes on with it: raise ValueError.",
        REFUSALS,
    ),
    Mistake(
        "sharers-index-error",
        SharersIndexError,
        "append() to a layer that shares raises IndexError. The text asks for ValueError.",
        REFUSALS,
    ),
    Mistake("negative-layers", NegativeLayers, "Layers below 0 are accepted. Refuse with ValueError.", REFUSALS),
    Mistake(
        "negative-layers-from-the-end",
        NegativeLayersFromTheEnd,
        "Layer -1 is the last one with you. There is no such layer: refuse with ValueError.",
        REFUSALS,
    ),
    Mistake(
        "one-layer-more",
        OneLayerMore,
        "Layer num_layers is accepted. The last one is num_layers - 1.",
        REFUSALS,
    ),
    Mistake(
        "full-groups",
        FullGroups,
        "You accept layers as if the last group were full, and one more. The last layer is num_layers - 1.",
        REFUSALS,
    ),
    Mistake(
        "layer-index-error",
        LayerIndexError,
        "A layer that is not there raises IndexError. The text asks for ValueError.",
        REFUSALS,
    ),
    Mistake("owner-unchecked", OwnerUnchecked, "owner() answers for layers that are not there: ValueError.", REFUSALS),
    Mistake(
        "read-unchecked",
        ReadUnchecked,
        "read() answers for layers that are not there, from the other end. Refuse with ValueError.",
        REFUSALS,
    ),
    Mistake(
        "no-room-unseen",
        NoRoomUnseen,
        "Nobody asks whether all tokens fit: torch raises something else, or drops a single token in silence.",
        REFUSALS,
    ),
    Mistake("cut-to-room", CutToRoom, "Tokens that do not fit are dropped. Refuse all of them: ValueError.", REFUSALS),
    Mistake("no-room-index-error", NoRoomIndexError, "No room raises IndexError. Wanted is ValueError.", REFUSALS),
    Mistake(
        "full-only-when-full",
        FullOnlyWhenFull,
        "You only ask whether the cache is full. Five tokens do not fit where four have room.",
        REFUSALS,
    ),
    Mistake(
        "counts-before-refusing",
        CountsBeforeRefusing,
        "A refused append() has changed how far the owner counts as written. All refusals come first.",
        REFUSALS,
    ),
    Mistake(
        "writes-before-refusing",
        WritesBeforeRefusing,
        "The tokens that fit are written before the rest is refused. A refused call changes nothing.",
        REFUSALS,
    ),
    Mistake("advance-unchecked", AdvanceUnchecked, "advance() goes past max_len. Refuse with ValueError.", REFUSALS),
    Mistake("advance-backwards", AdvanceBackwards, "advance(-1) is accepted. Refuse with ValueError.", REFUSALS),
    Mistake(
        "advance-clamped",
        AdvanceClamped,
        "advance() moves an impossible number to the nearest possible one. Refuse with ValueError.",
        REFUSALS,
    ),
)


class OneTensor:
    """All owners in one tensor, tokens first; the length written is found by owner."""

    def __init__(self, num_layers, share, batch_size, num_kv_heads, max_len, head_dim):
        self.num_layers, self.share = num_layers, share
        owners = len(range(0, num_layers, share))
        size = (owners, max_len, 2, batch_size, num_kv_heads, head_dim)
        self.rows = torch.full(size, float("nan"), dtype=torch.float64)
        self.length, self.new = 0, {}

    def __len__(self):
        return self.length

    @property
    def nbytes(self):
        return self.rows.nbytes

    def owner(self, layer):
        if layer not in range(self.num_layers):
            raise ValueError
        return layer - layer % self.share

    def append(self, layer, k, v):
        T = k.shape[2]
        if self.owner(layer) < layer or self.length + T > self.rows.shape[1]:
            raise ValueError
        both = torch.stack([k, v]).permute(3, 0, 1, 2, 4)  # (T, 2, B, Hkv, D)
        self.rows[layer // self.share, self.length : self.length + T] = both
        self.new[layer] = T
        return self.read(layer)

    def read(self, layer):
        owner = self.owner(layer)
        end = self.length + self.new.get(owner, 0)
        K, V = self.rows[owner // self.share, :end].permute(1, 2, 3, 0, 4)
        return [K, V]

    def advance(self, n):
        if n < 0 or self.length + n > self.rows.shape[1]:
            raise ValueError
        self.length, self.new = self.length + n, {}


class OwnerObject:
    """The cache of one owner."""

    def __init__(self, *shape):
        self.K, self.V = torch.zeros(*shape, dtype=torch.float64), torch.zeros(*shape, dtype=torch.float64)
        self.held = self.end = 0

    def append(self, k, v):
        self.end = self.held + k.size(2)
        for buffer, rows in ((self.K, k), (self.V, v)):
            buffer[:, :, self.held : self.end].copy_(rows)

    def read(self):
        return self.K[:, :, : self.end].clone(), self.V[:, :, : self.end].clone()


class SharedObjects:
    """A list of objects, one for each layer; neighbours have the same one."""

    def __init__(self, num_layers, share, batch_size, num_kv_heads, max_len, head_dim):
        self.layers, self.max_len = [], max_len
        for layer in range(num_layers):
            alone = layer % share == 0
            self.layers.append(OwnerObject(batch_size, num_kv_heads, max_len, head_dim) if alone else self.layers[-1])

    def __len__(self):
        return self.layers[0].held

    @property
    def nbytes(self):
        different = {id(owner): owner for owner in self.layers}.values()
        return sum(owner.K.nbytes + owner.V.nbytes for owner in different)

    def owner(self, layer):
        if layer < 0 or layer >= len(self.layers):
            raise ValueError(f"no layer {layer}")
        return self.layers.index(self.layers[layer])

    def append(self, layer, k, v):
        if self.owner(layer) != layer:
            raise ValueError(f"layer {layer} shares")
        if len(self) + k.shape[2] > self.max_len:
            raise ValueError("full")
        self.layers[layer].append(k, v)
        return self.layers[layer].read()

    def read(self, layer):
        self.owner(layer)
        return self.layers[layer].read()

    def advance(self, num_tokens):
        if not 0 <= num_tokens <= self.max_len - len(self):
            raise ValueError("advance")
        length = len(self) + num_tokens
        for owner in self.layers:
            owner.held = owner.end = length


class MadeFull:
    """Views of the buffers for each layer, and the rows stacked; reads come back as one tensor of two."""

    def __init__(self, L, share, B, Hkv, max_len, D):
        self.first = [max(owner for owner in range(0, L, share) if owner <= layer) for layer in range(L)]
        self.rows = {owner: torch.empty(2, B, Hkv, max_len, D, dtype=torch.float64) for owner in self.first}
        self.now = torch.zeros(L, dtype=torch.int64)
        self.nbytes = sum(rows.numel() for rows in self.rows.values()) * 8
        self.max_len, self.n = max_len, 0

    def __len__(self):
        return self.n

    def owner(self, layer):
        if not -1 < layer < len(self.first):
            raise ValueError(layer)
        return self.first[layer]

    def append(self, layer, k, v):
        if layer != self.owner(layer):
            raise ValueError(layer)
        if self.n + k.shape[2] > self.max_len:
            raise ValueError(k.shape)
        self.now[layer] = k.shape[2]
        self.rows[layer].narrow(3, self.n, k.shape[2]).copy_(torch.stack((k, v)))
        return self.read(layer)

    def read(self, layer):
        owner = self.owner(layer)
        return self.rows[owner][:, :, :, : self.n + int(self.now[owner])].contiguous()

    def advance(self, n):
        if n < 0:
            raise ValueError(n)
        if n > self.max_len - self.n:
            raise ValueError(n)
        self.n += n
        self.now.zero_()


class FlatRows:
    """Two long tensors of rows, one row for each token of each head of each sequence of each owner."""

    def __init__(self, L, share, *sizes):
        self.L, self.share, self.sizes = L, share, sizes
        B, Hkv, max_len, D = sizes
        self.K = torch.zeros(-(-L // share) * B * Hkv * max_len, D, dtype=torch.float64)
        self.V = torch.zeros_like(self.K)
        self.used, self.written = 0, {}

    def __len__(self):
        return self.used

    @property
    def nbytes(self):
        return self.K.nbytes + self.V.nbytes

    def owner(self, layer):
        if layer in range(self.L):
            return (layer // self.share) * self.share
        raise ValueError("no such layer")

    def append(self, layer, k, v):
        B, Hkv, max_len, D = self.sizes
        T = k.shape[2]
        if self.owner(layer) != layer or self.used + T > max_len:
            raise ValueError("not an owner, or full")
        for rows, buffer in ((k, self.K), (v, self.V)):
            for b in range(B):
                for h in range(Hkv):
                    start = ((layer // self.share * B + b) * Hkv + h) * max_len + self.used
                    buffer[start : start + T] = rows[b, h]
        self.written[layer] = self.used + T
        return self.read(layer)

    def read(self, layer):
        B, Hkv, max_len, D = self.sizes
        owner = self.owner(layer)
        end = self.written.get(owner, self.used)
        K, V = (buffer.view(-1, B, Hkv, max_len, D)[owner // self.share, :, :, :end] for buffer in (self.K, self.V))
        return K, V

    def advance(self, num_tokens):
        if self.used + num_tokens > self.sizes[2] or num_tokens < 0:
            raise ValueError("advance")
        self.used += num_tokens
        self.written.clear()


VARIANTS = (
    Variant("one tensor, tokens first", OneTensor),
    Variant("an object that neighbours share", SharedObjects),
    Variant("a table of owners, one tensor of two", MadeFull),
    Variant("flat rows", FlatRows),
    Variant("lists of buffers", Base),
)
