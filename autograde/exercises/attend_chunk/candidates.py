"""Wrong and right ways to push a chunk through one attention layer. Each mistake changes one part of `Base`."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """Called as a function: `work = Base().run`. The parts are what the mistakes change."""

    def run(self, layer, cache, x):
        start, T = len(cache), x.shape[1]
        positions = self.positions(start, T)
        q = self.turn_q(layer, layer.project_q(x), positions)
        k = self.turn_k(layer, layer.project_k(x), positions)
        K, V = self.keep(cache, k, layer.project_v(x))
        K, V = self.use(layer, start, K, V, k)
        return self.out(layer, x, self.attend(q, K, V, self.mask(start, T, K.shape[2])))

    def positions(self, start, T):
        return torch.arange(start, start + T)

    def turn_q(self, layer, q, positions):
        return layer.rotate(q, positions)

    def turn_k(self, layer, k, positions):
        return layer.rotate(k, positions)

    def keep(self, cache, k, v):
        return cache.append(k, v)

    def use(self, layer, start, K, V, k):
        return K, V

    def mask(self, start, T, S):
        return torch.arange(S)[None, :] <= torch.arange(start, start + T)[:, None]

    def heads(self, rows, H):
        return rows.repeat_interleave(H // rows.shape[1], dim=1)

    def scores(self, q, K):
        return q @ K.mT / math.sqrt(q.shape[3])

    def weights(self, scores, mask):
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

    def attend(self, q, K, V, mask):
        H = q.shape[1]
        return self.weights(self.scores(q, self.heads(K, H)), mask) @ self.heads(V, H)

    def out(self, layer, x, attended):
        return layer.project_o(attended)


# Positions.


class PositionsRestart(Base):
    def positions(self, start, T):
        return torch.arange(T)


class OnePositionForAll(Base):
    def positions(self, start, T):
        return torch.full((T,), start + T - 1)


class KeysRestart(Base):
    def turn_k(self, layer, k, positions):
        return layer.rotate(k, torch.arange(k.shape[2]))


class QueriesRestart(Base):
    def turn_q(self, layer, q, positions):
        return layer.rotate(q, torch.arange(q.shape[2]))


class OneMore(Base):
    """Invisible in the outputs: only distances count. What is kept is not what another reader expects."""

    def positions(self, start, T):
        return torch.arange(start, start + T) + 1


class LengthAfterAppend(Base):
    """Reads len(cache) once the new tokens are counted, and turns the queries by it."""

    def run(self, layer, cache, x):
        T = x.shape[1]
        start = len(cache)
        k = layer.rotate(layer.project_k(x), torch.arange(start, start + T))
        K, V = cache.append(k, layer.project_v(x))
        late = len(cache)
        q = layer.rotate(layer.project_q(x), torch.arange(late, late + T))
        return layer.project_o(self.attend(q, K, V, self.mask(start, T, K.shape[2])))


# What is turned.


class QueriesNotTurned(Base):
    def turn_q(self, layer, q, positions):
        return q


class KeysNotTurned(Base):
    def turn_k(self, layer, k, positions):
        return k


class NothingTurned(KeysNotTurned):
    def turn_q(self, layer, q, positions):
        return q


class ValuesTurned(Base):
    def use(self, layer, start, K, V, k):
        return K, layer.rotate(V, torch.arange(V.shape[2]))


class ValuesKeptTurned(Base):
    """Stored turned, and turned back for use."""

    def run(self, layer, cache, x):
        start, T = len(cache), x.shape[1]
        positions = torch.arange(start, start + T)
        q, k, v = layer.project_q(x), layer.project_k(x), layer.project_v(x)
        K, V = cache.append(layer.rotate(k, positions), layer.rotate(v, positions))
        V = layer.rotate(V, -torch.arange(V.shape[2]))
        return layer.project_o(self.attend(layer.rotate(q, positions), K, V, self.mask(start, T, K.shape[2])))


class KeysTurnedTwice(Base):
    def turn_k(self, layer, k, positions):
        return layer.rotate(layer.rotate(k, positions), positions)


class HeldKeysTurnedAgain(Base):
    """Every call turns the held keys once more."""

    def use(self, layer, start, K, V, k):
        if start == 0:
            return K, V
        again = layer.rotate(K[:, :, :start], torch.arange(start))
        return torch.cat((again, K[:, :, start:]), dim=2), V


class TurnedOnReading(Base):
    """Right outputs, but the keys are kept unturned."""

    def turn_k(self, layer, k, positions):
        return k

    def use(self, layer, start, K, V, k):
        return layer.rotate(K, torch.arange(K.shape[2])), V


# What is kept and used.


class KeysAndValuesSwapped(Base):
    """Swapped on the way in and on the way out."""

    def keep(self, cache, k, v):
        V, K = cache.append(v, k)
        return K, V


class ValuesAsKeys(Base):
    def keep(self, cache, k, v):
        V, K = cache.append(k, v)
        return K, V


class ChunkOnly(Base):
    """What append returns is not used."""

    def keep(self, cache, k, v):
        cache.append(k, v)
        return k, v

    def mask(self, start, T, S):
        return torch.ones(T, S, dtype=torch.bool).tril()


class HeldOnly(Base):
    """The chunk's own keys are left out, when there are others."""

    def use(self, layer, start, K, V, k):
        return (K[:, :, :start], V[:, :, :start]) if start else (K, V)


class AppendedTwice(Base):
    """The first answer is used; the cache holds every token twice from then on."""

    def keep(self, cache, k, v):
        K, V = cache.append(k, v)
        cache.append(k, v)
        return K, V


class NeverAppended(Base):
    def keep(self, cache, k, v):
        return k, v


class LastTokenKept(Base):
    """Right while one token comes at a time."""

    def run(self, layer, cache, x):
        start, T = len(cache), x.shape[1]
        if start:  # a prompt is kept whole
            x = x[:, -1:]
            out = super().run(layer, cache, x)
            return out.expand(-1, T, -1)
        return super().run(layer, cache, x)


# Masks.


class TopLeft(Base):
    def mask(self, start, T, S):
        return torch.ones(T, S, dtype=torch.bool).tril()


class NoMask(Base):
    def mask(self, start, T, S):
        return torch.ones(T, S, dtype=torch.bool)


class TopLeftForChunks(Base):
    """is_causal = T > 1."""

    def mask(self, start, T, S):
        return torch.ones(T, S, dtype=torch.bool).tril() if T > 1 else torch.ones(T, S, dtype=torch.bool)


class MaskForPromptsOnly(Base):
    """A mask if T == S, else none."""

    def mask(self, start, T, S):
        return super().mask(start, T, S) if T == S else torch.ones(T, S, dtype=torch.bool)


class OffsetOfCapacity(Base):
    """The triangle ends in the corner of a mask as wide as the cache may get."""

    def run(self, layer, cache, x):
        self.max_len = cache.max_len
        return super().run(layer, cache, x)

    def mask(self, start, T, S):
        return torch.ones(T, self.max_len, dtype=torch.bool).tril(self.max_len - T)[:, :S]


class SeesTheNext(Base):
    def mask(self, start, T, S):
        return torch.arange(S)[None, :] <= torch.arange(start, start + T)[:, None] + 1


class WithoutItself(Base):
    """The first token sees itself, lest it see nothing."""

    def mask(self, start, T, S):
        p = torch.arange(start, start + T)[:, None]
        return (torch.arange(S)[None, :] < p) | ((p == 0) & (torch.arange(S)[None, :] == 0))


class ChunkBlind(Base):
    """Held tokens and itself only."""

    def mask(self, start, T, S):
        s = torch.arange(S)[None, :]
        return (s < start) | (s == torch.arange(start, start + T)[:, None])


class HeldHidden(Base):
    """The held tokens are masked away in a chunk."""

    def mask(self, start, T, S):
        s = torch.arange(S)[None, :]
        seen = super().mask(start, T, S)
        return seen & (s >= start) if T > 1 else seen


class ZerosForMinusInfinity(Base):
    def weights(self, scores, mask):
        return scores.masked_fill(~mask, 0.0).softmax(dim=-1)


class MaskedAfterSoftmax(Base):
    def weights(self, scores, mask):
        return scores.softmax(dim=-1) * mask


# Attention and heads.


class HeadsTiled(Base):
    def heads(self, rows, H):
        return rows.repeat(1, H // rows.shape[1], 1, 1)


class GroupsOfHkv(Base):
    """h // Hkv."""

    def heads(self, rows, H):
        return rows[:, [min(h // rows.shape[1], rows.shape[1] - 1) for h in range(H)]]


class FirstKVHead(Base):
    def heads(self, rows, H):
        return rows[:, :1].expand(-1, H, -1, -1)


class OutputHeadsMixed(Base):
    """Folded by groups, unfolded by heads."""

    def attend(self, q, K, V, mask):
        out, Hkv = super().attend(q, K, V, mask), K.shape[1]
        return out.unflatten(1, (Hkv, -1)).transpose(1, 2).flatten(1, 2)


class ScaleForgotten(Base):
    def scores(self, q, K):
        return q @ K.mT


class ScaleOfAllHeads(Base):
    def scores(self, q, K):
        return q @ K.mT / math.sqrt(q.shape[3] * q.shape[1])


class ScaleIsTwo(Base):
    """sqrt(4), written as a number."""

    def scores(self, q, K):
        return q @ K.mT / 2


class GroupIsThree(Base):
    def heads(self, rows, H):
        return rows.repeat_interleave(3, dim=1)[:, :H]


class SoftmaxOverQueries(Base):
    def weights(self, scores, mask):
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=-2)


class FirstSequenceForAll(Base):
    def use(self, layer, start, K, V, k):
        return K[:1].expand_as(K), V[:1].expand_as(V)


# The output.


class NotProjected(Base):
    def out(self, layer, x, attended):
        return attended.transpose(1, 2).flatten(2)


class LastRowOnly(Base):
    def out(self, layer, x, attended):
        return layer.project_o(attended)[:, -1]


class ResidualAdded(Base):
    def out(self, layer, x, attended):
        return x + layer.project_o(attended)


# Work.


class KeysProjectedTwice(Base):
    """Once to keep, once to use."""

    def run(self, layer, cache, x):
        layer.project_k(x)
        return super().run(layer, cache, x)


class ValuesProjectedTwice(Base):
    def run(self, layer, cache, x):
        layer.project_v(x)
        return super().run(layer, cache, x)


class QueriesForEachToken(Base):
    """All queries of the chunk are worked out again for each of its tokens."""

    def attend(self, q, K, V, mask):
        return super().attend(self.again(), K, V, mask)

    def run(self, layer, cache, x):
        def again():
            positions = torch.arange(len(cache) - T, len(cache))
            return torch.cat([layer.rotate(layer.project_q(x), positions)[:, :, t : t + 1] for t in range(T)], dim=2)

        T = x.shape[1]
        self.again = again
        return super().run(layer, cache, x)


class ProjectedToEight(Base):
    """Chunks are filled up with zeros to 8 rows, or 16, 24, so that calls are alike."""

    def run(self, layer, cache, x):
        class Padded:
            def __getattr__(self, name):
                if not name.startswith("project_") or name == "project_o":
                    return getattr(layer, name)
                filled = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 8))
                return lambda x: getattr(layer, name)(filled)[:, :, : x.shape[1]]

        return super().run(Padded(), cache, x)


class OutputForEachToken(Base):
    """project_o of the whole chunk, for each token."""

    def out(self, layer, x, attended):
        return torch.cat([layer.project_o(attended)[:, t : t + 1] for t in range(x.shape[1])], dim=1)


class PositionsWrap(Base):
    """A table of 16 angles."""

    def positions(self, start, T):
        return torch.arange(start, start + T) % 16


class SeesThe16Newest(Base):
    def mask(self, start, T, S):
        distance = torch.arange(start, start + T)[:, None] - torch.arange(S)[None, :]
        return (distance >= 0) & (distance < 16)


class FirstTokenTwice(Base):
    """A first token that comes alone is projected once more, to see what the sizes are."""

    def run(self, layer, cache, x):
        if len(cache) == 0 and x.shape[1] == 1:
            layer.project_v(x)
        return super().run(layer, cache, x)


def _work(kind):
    def attend_chunk(layer, cache, x):
        return kind().run(layer, cache, x)

    return attend_chunk


def _mistake(name, kind, tells, killed_by, seen_in=""):
    return Mistake(name, _work(kind), tells, killed_by, seen_in)


MISTAKES = (
    _mistake("positions-restart", PositionsRestart,
             "Positions start at 0 in every chunk. They go on from the tokens held: arange(len(cache), len(cache) + T).", "token by token",
             "adapters that number each forward pass anew"),
    _mistake("keys-restart", KeysRestart, "The keys' positions start at 0 in every chunk, the queries' do not.", "token by token"),
    _mistake("queries-restart", QueriesRestart, "The queries' positions start at 0 in every chunk, the keys' do not.", "token by token"),
    _mistake("one-position-for-all", OnePositionForAll,
             "All rows of a chunk are turned to one and the same position. Each row has its own: arange(len(cache), len(cache) + T).", "one prompt"),
    _mistake("one-more", OneMore,
             "All positions are one too large. Only distances show in outputs, but the keys that are kept are not the ones agreed on.", "what is kept"),
    _mistake("length-after-append", LengthAfterAppend,
             "len(cache) is read after append, when the new tokens are counted already: queries stand T positions too far.", "one prompt"),
    _mistake("nothing-turned", NothingTurned, "Neither queries nor keys are turned: attention does not know the order of tokens.", "one prompt"),
    _mistake("queries-not-turned", QueriesNotTurned, "The queries are not turned. Keys and queries both are.", "one prompt"),
    _mistake("keys-not-turned", KeysNotTurned, "The keys are not turned. Keys and queries both are.", "one prompt"),
    _mistake("values-turned", ValuesTurned, "The values are turned too. Only queries and keys are.", "one prompt"),
    _mistake("values-kept-turned", ValuesKeptTurned,
             "The values are turned before they are kept, and back again. Keep them as they come out of the projection.", "what is kept"),
    _mistake("keys-turned-twice", KeysTurnedTwice, "The new keys are turned twice. Once is enough.", "one prompt"),
    _mistake("held-keys-turned-again", HeldKeysTurnedAgain,
             "Held keys are turned again in every call. They were turned before they were kept, once and for all.", "token by token",
             "caches that rotate what they return"),
    _mistake("turned-on-reading", TurnedOnReading,
             "The outputs are right, but the keys are kept unturned and turned whenever they are read. Turn them once, then append.", "what is kept"),
    _mistake("swapped-both-ways", KeysAndValuesSwapped,
             "Keys and values are swapped going in and coming out. Outputs are right, but the cache holds each in the other's place.", "what is kept"),
    _mistake("values-as-keys", ValuesAsKeys, "K and V are swapped: append returns (K, V).", "one prompt"),
    _mistake("chunk-only", ChunkOnly,
             "Only the chunk's own keys are used. Attend over K and V as append returns them: all tokens so far.", "token by token"),
    _mistake("held-only", HeldOnly, "The chunk's own keys are left out: a token must see itself.", "token by token"),
    _mistake("appended-twice", AppendedTwice, "Every chunk is appended twice. Call append once.", "one prompt"),
    _mistake("never-appended", NeverAppended, "Nothing is appended: the next call finds an empty cache.", "one prompt"),
    _mistake("last-token-kept", LastTokenKept, "Once tokens are held, only the last token of a chunk is worked on.", "chunks"),
    _mistake("top-left", TopLeft,
             "A new token sees key 0 and not what was held: positions, or a triangle, start again at 0. Row t stands at len(cache) + t.", "token by token",
             "PyTorch's is_causal=True with T < S"),
    _mistake("no-mask", NoMask, "There is no mask: tokens of a chunk see the ones after them.", "one prompt"),
    _mistake("top-left-for-chunks", TopLeftForChunks,
             "The mask of a later chunk is a triangle from the top left, as is_causal=T > 1 gives. Row t stands at len(cache) + t.", "chunks",
             "decoders that pass is_causal=T > 1 to scaled_dot_product_attention"),
    _mistake("mask-for-prompts-only", MaskForPromptsOnly,
             "There is a mask only while nothing is held. A later chunk of several tokens needs one too.", "chunks"),
    _mistake("offset-of-capacity", OffsetOfCapacity,
             "The mask's triangle is set off by max_len - T. It is set off by the tokens held, len(cache) before append.", "chunks"),
    _mistake("sees-the-next", SeesTheNext, "A token sees the one after it: the mask is one too wide.", "one prompt"),
    _mistake("without-itself", WithoutItself, "A token does not see itself: k <= q, not k < q.", "one prompt"),
    _mistake("chunk-blind", ChunkBlind, "A token sees the held ones and itself, but not the chunk's earlier ones.", "one prompt"),
    _mistake("held-hidden", HeldHidden, "In a chunk of several tokens the held ones are masked away. Every new token sees all of them.", "chunks"),
    _mistake("zeros-for-minus-infinity", ZerosForMinusInfinity,
             "Hidden scores are set to 0, and exp(0) is 1. Set them to minus infinity.", "one prompt"),
    _mistake("masked-after-softmax", MaskedAfterSoftmax,
             "Hidden keys are taken away after softmax, so what is left no longer adds up to 1. Mask the scores.", "one prompt"),
    _mistake("heads-tiled", HeadsTiled,
             "KV heads are dealt out in turn (h % Hkv). Neighbouring query heads share one: h // (H // Hkv).", "one prompt",
             "repeat() in place of repeat_interleave()"),
    _mistake("groups-of-hkv", GroupsOfHkv, "Query head h reads KV head h // Hkv. It reads h // (H // Hkv).", "one prompt"),
    _mistake("first-kv-head", FirstKVHead, "Every query head reads KV head 0.", "one prompt"),
    _mistake("output-heads-mixed", OutputHeadsMixed,
             "The heads come out in another order than they went in: unfold them as they were folded, (Hkv, G).", "one prompt"),
    _mistake("scale-forgotten", ScaleForgotten, "The scores are not divided by sqrt(D).", "one prompt"),
    _mistake("scale-of-all-heads", ScaleOfAllHeads, "The scores are divided by sqrt(H * D). It is D, of one head.", "one prompt"),
    _mistake("scale-is-two", ScaleIsTwo, "The scores are divided by 2, which is sqrt(D) for D = 4 only. Take D from the rows.", "another layer"),
    _mistake("group-is-three", GroupIsThree, "The group is always 3 heads. It is H // Hkv of this layer.", "another layer"),
    _mistake("softmax-over-queries", SoftmaxOverQueries, "Softmax goes over the queries. It goes over the keys, the last axis.", "one prompt"),
    _mistake("first-sequence-for-all", FirstSequenceForAll, "Every sequence attends to the keys of the first.", "one prompt"),
    _mistake("not-projected", NotProjected, "What comes back is attention's own output: project_o is missing.", "one prompt"),
    _mistake("last-row-only", LastRowOnly, "Only the last token's row comes back. Return all T rows.", "one prompt"),
    _mistake("residual-added", ResidualAdded, "x is added to the output. The layer here is attention alone.", "one prompt"),
    _mistake("keys-projected-twice", KeysProjectedTwice, "The keys of each chunk are projected twice.", "rows computed"),
    _mistake("values-projected-twice", ValuesProjectedTwice, "The values of each chunk are projected twice.", "rows computed"),
    _mistake("queries-for-each-token", QueriesForEachToken,
             "All queries of a chunk are projected again for each of its tokens. Project the chunk once.", "rows computed"),
    _mistake("padded-to-eight", ProjectedToEight,
             "Chunks are padded to a multiple of 8 rows before they are projected: rows are worked out that nobody needs.", "rows computed"),
    _mistake("output-for-each-token", OutputForEachToken,
             "project_o is called on the whole chunk for each of its tokens. Once is enough.", "rows computed"),
    _mistake("positions-wrap", PositionsWrap, "Positions start again at 0 after 16 tokens. They have no end.", "chunks"),
    _mistake("sees-the-16-newest", SeesThe16Newest, "A token sees the 16 newest only. It sees all that came before it.", "chunks"),
    _mistake("first-token-twice", FirstTokenTwice, "A first token that comes alone has its value projected twice.", "rows computed"),
)  # fmt: skip


def with_sdpa(layer, cache, x):
    n, T = len(cache), x.shape[1]
    at = n + torch.arange(T)
    K, V = cache.append(layer.rotate(layer.project_k(x), at), layer.project_v(x))
    mask = torch.ones(T, n + T, dtype=torch.bool).tril(diagonal=n)
    q = layer.rotate(layer.project_q(x), at)
    attend = torch.nn.functional.scaled_dot_product_attention
    return layer.project_o(attend(q, K, V, attn_mask=mask, enable_gqa=True))


def token_by_token(layer, cache, x):
    """No mask at all: each token goes in alone, and sees all that is there."""
    outputs = []
    for row in x.unbind(dim=1):
        row, here = row[:, None], torch.tensor([len(cache)])
        q = layer.rotate(layer.project_q(row), here)
        K, V = cache.append(layer.rotate(layer.project_k(row), here), layer.project_v(row))
        outputs.append(layer.project_o(Base().attend(q, K, V, torch.ones(1, K.shape[2], dtype=torch.bool))))
    return torch.cat(outputs, dim=1)


def loops(layer, cache, x):
    """One head of one sequence at a time, each query over just what it may see."""
    n, (B, T, _) = len(cache), x.shape
    positions = torch.tensor([n + t for t in range(T)])
    q, k, v = layer.project_q(x), layer.project_k(x), layer.project_v(x)
    q, k = layer.rotate(q, positions), layer.rotate(k, positions)
    K, V = cache.append(k, v)
    out = torch.empty_like(q)
    for b in range(B):
        for h in range(layer.num_heads):
            g = h // (layer.num_heads // layer.num_kv_heads)
            for t in range(T):
                keys, values = K[b, g, : n + t + 1], V[b, g, : n + t + 1]
                shares = torch.softmax(keys @ q[b, h, t] / layer.head_dim**0.5, dim=0)
                out[b, h, t] = shares @ values
    return layer.project_o(out)


def grouped_einsum(layer, cache, x):
    """The group has an axis of its own; numbers are added for the mask."""
    n, T = len(cache), x.shape[1]
    q, k = (layer.rotate(rows, torch.arange(n, n + T)) for rows in (layer.project_q(x), layer.project_k(x)))
    K, V = cache.append(k, layer.project_v(x))
    q = q.unflatten(1, (K.shape[1], -1))  # (B, Hkv, G, T, D)
    scores = torch.einsum("bkgtd,bksd->bkgts", q, K) / q.shape[-1] ** 0.5
    bias = torch.full((T, n + T), float("-inf"), dtype=x.dtype).triu(n + 1)
    out = torch.einsum("bkgts,bksd->bkgtd", (scores + bias).softmax(-1), V)
    return layer.project_o(out.flatten(1, 2))


def in_float32(layer, cache, x):
    n, T = len(cache), x.shape[1]
    positions = torch.arange(n, n + T)
    q = layer.rotate(layer.project_q(x), positions).float()
    K, V = cache.append(layer.rotate(layer.project_k(x), positions).float(), layer.project_v(x).float())
    return layer.project_o(Base().attend(q, K.float(), V.float(), Base().mask(n, T, n + T)))


def in_two_parts(layer, cache, x):
    """Held keys without a mask, the chunk's with a triangle; the two are put together by their sums."""
    n, T = len(cache), x.shape[1]
    positions = torch.arange(n, n + T)
    q, k, v = (
        layer.rotate(layer.project_q(x), positions),
        layer.rotate(layer.project_k(x), positions),
        layer.project_v(x),
    )
    K, V = cache.append(k, v)
    base, H = Base(), layer.num_heads
    held = base.scores(q, base.heads(K[:, :, :n], H)).exp()
    new = base.scores(q, base.heads(k, H)).exp().tril()
    total = held.sum(-1, keepdim=True) + new.sum(-1, keepdim=True)
    return layer.project_o((held @ base.heads(V[:, :, :n], H) + new @ base.heads(v, H)) / total)


class LargeNegative(Base):
    """A finite number in place of minus infinity: each row sees at least itself."""

    def weights(self, scores, mask):
        return scores.where(mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


def halves(layer, cache, x):
    """A chunk is two smaller ones, down to single tokens."""
    T = x.shape[1]
    if T > 1:
        return torch.cat([halves(layer, cache, part) for part in x.tensor_split(2, dim=1)], dim=1)
    return token_by_token(layer, cache, x)


def running_softmax(layer, cache, x):
    """Key by key, with a running maximum and a running sum, as fused kernels do it."""
    n, T, H = len(cache), x.shape[1], layer.num_heads
    at = torch.arange(n, n + T)
    q, k = layer.rotate(layer.project_q(x), at), layer.rotate(layer.project_k(x), at)
    K, V = (Base().heads(rows, H) for rows in cache.append(k, layer.project_v(x)))
    top, total, out = torch.full(q.shape[:3], -torch.inf, dtype=q.dtype), torch.zeros(q.shape[:3]), torch.zeros_like(q)
    for s in range(n + T):
        score = ((q * K[:, :, s : s + 1]).sum(-1) / layer.head_dim**0.5).masked_fill(at < s, -torch.inf)
        higher = torch.maximum(top, score)
        old, new = (top - higher).exp(), (score - higher).exp()
        total, out, top = total * old + new, out * old[..., None] + new[..., None] * V[:, :, s : s + 1], higher
    return layer.project_o(out / total[..., None])


VARIANTS = (
    Variant("repeated heads", _work(Base)),
    Variant("scaled_dot_product_attention", with_sdpa),
    Variant("token by token", token_by_token),
    Variant("loops", loops),
    Variant("a grouped einsum", grouped_einsum),
    Variant("float32", in_float32),
    Variant("in two parts", in_two_parts),
    Variant("a large negative number", _work(LargeNegative)),
    Variant("halves of halves", halves),
    Variant("a running softmax", running_softmax),
)
