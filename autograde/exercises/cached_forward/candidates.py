"""Wrong and right ways to push a chunk through a decoder with a cache. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import math

from autograde.exercise import Mistake, Variant
from autograde.lazy import torch


class Base:
    """A forward in small steps. K and V are repeated for the query heads: right, if not thrifty."""

    def __call__(self, model, cache, tokens):
        start, T = len(cache), tokens.shape[1]
        x = model.embed(tokens)
        positions, mask = self.positions(cache, start, T), self.mask(cache, start, T)
        for layer, block in enumerate(model.blocks):
            x = self.block(cache, layer, block, x, positions, mask)
        self.advance(cache, T)
        return self.out(model, x)

    def positions(self, cache, start, T):
        return torch.arange(start, start + T)

    def mask(self, cache, start, T):
        return torch.arange(start + T)[None, :] <= torch.arange(start, start + T)[:, None]

    def block(self, cache, layer, block, x, positions, mask):
        q, k, v = block.qkv(x, positions)
        K, V = self.rows(cache, layer, k, v)
        return block.finish(x, self.attend(q, K, V, mask))

    def rows(self, cache, layer, k, v):
        return cache.append(layer, k, v)

    def repeat(self, rows, G):
        return rows.repeat_interleave(G, dim=1)

    def scores(self, q, K):
        return q @ K.transpose(2, 3) / math.sqrt(q.shape[3])

    def attend(self, q, K, V, mask):
        G = q.shape[1] // K.shape[1]
        scores = self.hide(self.scores(q, self.repeat(K, G)), mask)
        return scores.softmax(dim=-1) @ self.repeat(V, G)

    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~mask, -math.inf)

    def advance(self, cache, T):
        cache.advance(T)

    def out(self, model, x):
        return model.unembed(x)


# Positions.


class PositionsRestart(Base):
    def positions(self, cache, start, T):
        return torch.arange(T)


class AllAtTheLast(Base):
    def positions(self, cache, start, T):
        return torch.full((T,), start + T - 1)


class Backwards(Base):
    def positions(self, cache, start, T):
        return torch.arange(start, start + T).flip(0)


class SkipsAPosition(Base):
    """After the first chunk positions go on one too late."""

    def positions(self, cache, start, T):
        return torch.arange(start, start + T) + int(start > 0)


class OneBackWhenDecoding(Base):
    """With one new token the position of the last held one is taken."""

    def positions(self, cache, start, T):
        return super().positions(cache, start, T) - int(T == 1 and start > 0)


class FromTheFarEnd(Base):
    """Counts as if the cache were full."""

    def positions(self, cache, start, T):
        return torch.arange(cache.max_len - T, cache.max_len)


class PositionsPerCall(Base):
    """Each chunk counts for one position: right for single tokens."""

    def __init__(self):
        self.calls = 0

    def positions(self, cache, start, T):
        self.calls = self.calls + 1 if start else 0
        return torch.arange(self.calls, self.calls + T)


class PositionsOutside(Base):
    """Positions are counted in the function, for all caches together."""

    def __init__(self):
        self.seen = 0

    def positions(self, cache, start, T):
        self.seen += T
        return torch.arange(self.seen - T, self.seen)


# The mask.


class NoMask(Base):
    def mask(self, cache, start, T):
        return None


class TopLeft(Base):
    """The first T rows of a square triangle."""

    def mask(self, cache, start, T):
        return super().mask(cache, 0, start + T)[:T]


class OnlyWhenSquare(Base):
    def mask(self, cache, start, T):
        return super().mask(cache, start, T) if start == 0 else None


class TopLeftForChunks(Base):
    """What is_causal=True for T > 1 gives."""

    def mask(self, cache, start, T):
        return None if T == 1 else super().mask(cache, 0, start + T)[:T]


class Square(Base):
    """T by T: broadcasts for a single token, and fits no later chunk."""

    def mask(self, cache, start, T):
        return super().mask(cache, 0, T)


class MaskTransposed(Base):
    """Keys down, queries across: turned back by hand where it would not fit."""

    def mask(self, cache, start, T):
        square = super().mask(cache, 0, start + T).T
        return square[start:]


class OneAhead(Base):
    def mask(self, cache, start, T):
        return torch.arange(start + T)[None, :] <= torch.arange(start, start + T)[:, None] + 1


class NotItself(Base):
    """A token may not look at itself; the first one at nothing else."""

    def mask(self, cache, start, T):
        return torch.arange(start + T)[None, :] < torch.arange(start, start + T)[:, None]


class Upturned(Base):
    def hide(self, scores, mask):
        return scores.masked_fill(mask, -math.inf)


class Added(Base):
    """The bools are added to the scores, as if True were 0 and False minus infinity."""

    def hide(self, scores, mask):
        return scores + mask.to(scores.dtype)


class HiddenByZero(Base):
    """Zero scores still get weight."""

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, 0.0)


class HiddenAfterSoftmax(Base):
    """Weights are set to 0 and no longer sum to 1."""

    def attend(self, q, K, V, mask):
        G = q.shape[1] // K.shape[1]
        weights = self.scores(q, self.repeat(K, G)).softmax(dim=-1)
        return weights.masked_fill(~mask, 0.0) @ self.repeat(V, G)


class OffsetOfTheCapacity(Base):
    def mask(self, cache, start, T):
        seen = torch.arange(start + T)[None, :] - torch.arange(T)[:, None]
        return seen <= cache.max_len - T


class OnlyThePast(Base):
    """Everything held is seen, of the chunk each token sees only itself."""

    def mask(self, cache, start, T):
        return torch.cat([torch.ones(T, start, dtype=torch.bool), torch.eye(T, dtype=torch.bool)], dim=1)


# What attention reads.


class NewKeysOnly(Base):
    def rows(self, cache, layer, k, v):
        cache.append(layer, k, v)
        return k, v

    def mask(self, cache, start, T):
        return super().mask(cache, 0, T)


class OldKeysOnly(Base):
    """Attends first and appends then: what is new cannot be seen yet."""

    def rows(self, cache, layer, k, v):
        K, V = cache.append(layer, k, v)
        old = K.shape[2] - k.shape[2]
        return (K[:, :, :old], V[:, :, :old]) if old else (K, V)

    def mask(self, cache, start, T):
        return None if start else super().mask(cache, start, T)


class NewValuesForOld(Base):
    """The newest chunk's rows are appended once as keys, once as values."""

    def rows(self, cache, layer, k, v):
        return cache.append(layer, k, k)


class SwappedRows(Base):
    def rows(self, cache, layer, k, v):
        K, V = cache.append(layer, k, v)
        return V, K


class LayerZeroForAll(Base):
    def rows(self, cache, layer, k, v):
        return cache.append(0, k, v)


class FirstRowForAll(Base):
    def rows(self, cache, layer, k, v):
        K, V = cache.append(layer, k, v)
        return K[:1], V[:1]


class FirstSequenceForAll(Base):
    def __call__(self, model, cache, tokens):
        return super().__call__(model, cache, tokens[:1].expand(len(tokens), -1))


class Tiled(Base):
    def repeat(self, rows, G):
        return rows.repeat(1, G, 1, 1)


class TokensRepeated(Base):
    """Repeats along the axis of the tokens."""

    def repeat(self, rows, G):
        return rows.repeat_interleave(G, dim=2)


class FirstHeadForAll(Base):
    def repeat(self, rows, G):
        return rows[:, :1]


class GroupsReversed(Base):
    def repeat(self, rows, G):
        return rows.flip(1).repeat_interleave(G, dim=1)


class NotScaled(Base):
    def scores(self, q, K):
        return q @ K.transpose(2, 3)


class ScaledTwice(Base):
    def scores(self, q, K):
        return q @ K.transpose(2, 3) / q.shape[3]


class ScaledByAllHeads(Base):
    def scores(self, q, K):
        return q @ K.transpose(2, 3) / math.sqrt(q.shape[1] * q.shape[3])


class SoftmaxOverQueries(Base):
    def attend(self, q, K, V, mask):
        G = q.shape[1] // K.shape[1]
        return self.hide(self.scores(q, self.repeat(K, G)), mask).softmax(dim=-2) @ self.repeat(V, G)


class Scrambled(Base):
    """Heads and tokens change places by a reshape."""

    def attend(self, q, K, V, mask):
        attended = super().attend(q, K, V, mask)
        return attended.transpose(1, 2).reshape(attended.shape)


class Transposed(Base):
    """Hands (B, T, H, D) to finish."""

    def attend(self, q, K, V, mask):
        return super().attend(q, K, V, mask).transpose(1, 2)


# Around attention.


class NoAttention(Base):
    def attend(self, q, K, V, mask):
        return q


class ResidualTwice(Base):
    def block(self, cache, layer, block, x, positions, mask):
        return x + super().block(cache, layer, block, x, positions, mask)


class FinishesFromZero(Base):
    """finish gets no residual."""

    def block(self, cache, layer, block, x, positions, mask):
        q, k, v = block.qkv(x, positions)
        K, V = self.rows(cache, layer, k, v)
        return block.finish(torch.zeros_like(x), self.attend(q, K, V, mask))


class FinishesNormed(Base):
    """finish gets a normalised x."""

    def block(self, cache, layer, block, x, positions, mask):
        q, k, v = block.qkv(x, positions)
        K, V = self.rows(cache, layer, k, v)
        return block.finish(x / x.square().mean(-1, keepdim=True).sqrt(), self.attend(q, K, V, mask))


class FinishesFromTheEmbedding(Base):
    def block(self, cache, layer, block, x, positions, mask):
        q, k, v = block.qkv(x, positions)
        K, V = self.rows(cache, layer, k, v)
        self.first = x if layer == 0 else self.first
        return block.finish(self.first, self.attend(q, K, V, mask))


class EmbeddingIntoEveryBlock(Base):
    def block(self, cache, layer, block, x, positions, mask):
        self.first = x if layer == 0 else self.first
        return super().block(cache, layer, block, self.first, positions, mask)


class FirstLayerOnly(Base):
    def block(self, cache, layer, block, x, positions, mask):
        out = super().block(cache, layer, block, x, positions, mask)
        return out if layer == 0 else x


class LayersReversed(Base):
    def __call__(self, model, cache, tokens):
        start, T = len(cache), tokens.shape[1]
        x = model.embed(tokens)
        positions, mask = self.positions(cache, start, T), self.mask(cache, start, T)
        for layer in reversed(range(len(model.blocks))):
            x = self.block(cache, layer, model.blocks[layer], x, positions, mask)
        cache.advance(T)
        return model.unembed(x)


class UnembedForgotten(Base):
    def out(self, model, x):
        return x


class LastLogitsOnly(Base):
    def out(self, model, x):
        return model.unembed(x[:, -1:])


class Probabilities(Base):
    def out(self, model, x):
        return model.unembed(x).softmax(dim=-1)


class BestTokens(Base):
    def out(self, model, x):
        return model.unembed(x).argmax(dim=-1)


class TokensInFront(Base):
    def out(self, model, x):
        return model.unembed(x).transpose(0, 1)


# Counting.


class NeverAdvances(Base):
    def advance(self, cache, T):
        pass


class AdvancesByOne(Base):
    def advance(self, cache, T):
        cache.advance(1)


class AdvancesByAll(Base):
    def advance(self, cache, T):
        cache.advance(len(cache) + T)


class AdvancesInTheLoop(Base):
    def block(self, cache, layer, block, x, positions, mask):
        out = super().block(cache, layer, block, x, positions, mask)
        cache.advance(x.shape[1])
        return out

    def advance(self, cache, T):
        pass


class AdvancesFirst(Base):
    """Counts the tokens before any layer has them."""

    def __call__(self, model, cache, tokens):
        start, T = len(cache), tokens.shape[1]
        cache.advance(T)
        x = model.embed(tokens)
        positions = self.positions(cache, start, T)
        for layer, block in enumerate(model.blocks):
            q, k, v = block.qkv(x, positions)
            K, V = cache.append(layer, k, v)
            mask = super().mask(cache, K.shape[2] - T, T)
            x = block.finish(x, self.attend(q, K, V, mask))
        return model.unembed(x)


# Work.


class ProjectsTwice(Base):
    """Once for the keys and values, once more for the query."""

    def block(self, cache, layer, block, x, positions, mask):
        q, _, _ = block.qkv(x, positions)
        _, k, v = block.qkv(x, positions)
        K, V = self.rows(cache, layer, k, v)
        return block.finish(x, self.attend(q, K, V, mask))


class PrefixByPrefix(Base):
    """The chunk's first token, then the first two, then the first three, as without a cache."""

    def __call__(self, model, cache, tokens):
        start, logits = len(cache), []
        for T in range(1, tokens.shape[1] + 1):
            x = model.embed(tokens[:, :T])
            positions, mask = self.positions(cache, start, T), self.mask(cache, start, T)
            for layer, block in enumerate(model.blocks):
                x = self.block(cache, layer, block, x, positions, mask)
            logits.append(model.unembed(x[:, -1:]))
        cache.advance(tokens.shape[1])
        return torch.cat(logits, dim=1)


class LayerAfterLayerAgain(Base):
    """Each layer begins from the embedding again and runs all the layers below it."""

    def __call__(self, model, cache, tokens):
        start, T = len(cache), tokens.shape[1]
        positions, mask = self.positions(cache, start, T), self.mask(cache, start, T)
        for top in range(1, len(model.blocks) + 1):
            x = model.embed(tokens)
            for layer, block in enumerate(model.blocks[:top]):
                x = self.block(cache, layer, block, x, positions, mask)
        cache.advance(T)
        return model.unembed(x)


# Room.


class ClipsTheChunk(Base):
    """Only the tokens that fit are taken."""

    def __call__(self, model, cache, tokens):
        return super().__call__(model, cache, tokens[:, : max(1, cache.max_len - len(cache))])


class IgnoresTheChunk(Base):
    def __call__(self, model, cache, tokens):
        if len(cache) + tokens.shape[1] > cache.max_len:
            return None
        return super().__call__(model, cache, tokens)


class Swallows(Base):
    """What the cache refuses is attended to without being kept."""

    def rows(self, cache, layer, k, v):
        try:
            return cache.append(layer, k, v)
        except ValueError:
            return k, v

    def mask(self, cache, start, T):
        return super().mask(cache, start if start + T <= cache.max_len else 0, T)

    def advance(self, cache, T):
        if len(cache) + T <= cache.max_len:
            cache.advance(T)


class KeepsWhatFits(Base):
    """Token by token, until the cache refuses: the first ones are held then."""

    def __call__(self, model, cache, tokens):
        parts = [
            super(KeepsWhatFits, self).__call__(model, cache, tokens[:, t : t + 1]) for t in range(tokens.shape[1])
        ]
        return torch.cat(parts, dim=1)


class OtherError(Base):
    def __call__(self, model, cache, tokens):
        try:
            return super().__call__(model, cache, tokens)
        except ValueError as error:
            raise KeyError(str(error)) from None


_POSITIONS = "The new tokens stand at len(cache) and the positions that follow."

MISTAKES = (
    Mistake("positions-restart", PositionsRestart(), f"Positions begin at 0 in every chunk. {_POSITIONS}", "token by token"),
    Mistake("all-at-the-last-position", AllAtTheLast(), f"All tokens of a chunk get the position of the last one. {_POSITIONS}", "first chunk"),
    Mistake("positions-backwards", Backwards(), f"The positions run backwards. {_POSITIONS}", "first chunk"),
    Mistake("skips-a-position", SkipsAPosition(), f"After the first chunk positions go on one too late. {_POSITIONS}", "token by token"),
    Mistake("one-back-when-decoding", OneBackWhenDecoding(), f"With one new token, the position is one too small. {_POSITIONS}", "token by token"),
    Mistake("positions-of-a-full-cache", FromTheFarEnd(), f"Positions are counted back from max_len. {_POSITIONS}", "token by token"),
    Mistake("positions-count-calls", PositionsPerCall(), f"Each call moves the position on by one, whatever it brought. {_POSITIONS}", "any chunks"),
    Mistake("positions-kept-outside", PositionsOutside(), f"Positions are counted outside the cache, for all caches together. {_POSITIONS}", "any chunks"),
    Mistake("no-mask", NoMask(), "No mask: tokens of a chunk see those that come after them.", "first chunk"),
    Mistake("top-left-mask", TopLeft(),
            "The mask is the top left of the triangle. The new tokens are its last T rows: token i sees len(cache) + i + 1 keys.",
            "token by token", seen_in="scaled_dot_product_attention(..., is_causal=True) with a cache"),
    Mistake("mask-only-when-square", OnlyWhenSquare(), "There is a mask for the first chunk only. A later chunk needs one too.", "any chunks"),
    Mistake("top-left-mask-for-chunks", TopLeftForChunks(),
            "For chunks the mask is the top left of the triangle, as is_causal=True gives. It must end at the right.", "any chunks"),
    Mistake("square-mask", Square(), "The mask is T by T. With tokens held there are more keys than that: it needs S + T columns.", "any chunks"),
    Mistake("mask-transposed", MaskTransposed(), "The mask lies on its side: rows are queries, columns are keys.", "first chunk"),
    Mistake("sees-one-ahead", OneAhead(), "Each token sees the one after it. The test is key <= query.", "first chunk"),
    Mistake("sees-not-itself", NotItself(), "A token does not see itself. The test is key <= query.", "first chunk"),
    Mistake("mask-upturned", Upturned(), "The mask is upside down: True means may be seen.", "first chunk"),
    Mistake("mask-added", Added(), "The mask's bools are added to the scores: 1 for what may be seen, 0 for what may not. Hide with -inf.", "first chunk"),
    Mistake("hidden-by-zero", HiddenByZero(), "Hidden scores are set to 0, which still gets weight. Set them to -inf.", "first chunk"),
    Mistake("hidden-after-softmax", HiddenAfterSoftmax(), "Weights are hidden after the softmax and no longer sum to 1. Hide the scores.", "first chunk"),
    Mistake("offset-of-the-capacity", OffsetOfTheCapacity(), "The mask is moved by max_len - T. It is moved by the tokens held before.", "first chunk"),
    Mistake("chunk-hidden", OnlyThePast(), "Tokens of one chunk do not see each other, only the past and themselves.", "first chunk"),
    Mistake("new-keys-only", NewKeysOnly(), "Attention sees only the tokens of this chunk. Use the K and V that append() returns.", "token by token"),
    Mistake("appends-too-late", OldKeysOnly(), "Attention sees only what was held before: append the new keys and values first.", "token by token"),
    Mistake("values-are-keys", NewValuesForOld(), "The keys are appended as values too.", "first chunk"),
    Mistake("halves-swapped", SwappedRows(), "append() returns (K, V); they are used the other way round.", "first chunk"),
    Mistake("layer-0-for-all", LayerZeroForAll(), "All layers append to layer 0: after this call, the others' tokens are lost.", "several layers"),
    Mistake("first-row-for-all", FirstRowForAll(), "Every sequence attends to the first one's keys and values.", "first chunk"),
    Mistake("first-sequence-for-all", FirstSequenceForAll(), "The first sequence's tokens are run for every row.", "first chunk"),
    Mistake("heads-tiled", Tiled(), "KV heads are laid out 0 1 0 1 0 1. Neighbours share one: 0 0 0 1 1 1, repeat_interleave and not repeat.", "first chunk",
            seen_in="torch.Tensor.repeat in place of repeat_interleave"),
    Mistake("tokens-repeated", TokensRepeated(), "The keys are repeated along the tokens. The heads are axis 1.", "first chunk"),
    Mistake("head-0-for-all", FirstHeadForAll(), "All query heads read KV head 0.", "first chunk"),
    Mistake("groups-reversed", GroupsReversed(), "The groups read the KV heads in reverse order.", "first chunk"),
    Mistake("not-scaled", NotScaled(), "The scores are not divided by sqrt(D).", "first chunk"),
    Mistake("scaled-by-d", ScaledTwice(), "The scores are divided by D. Divide by its square root.", "first chunk"),
    Mistake("scaled-by-all-heads", ScaledByAllHeads(), "The scores are divided by sqrt(H * D). Divide by the root of one head's D.", "first chunk"),
    Mistake("softmax-over-queries", SoftmaxOverQueries(), "The softmax runs over the queries. It runs over the keys, the last axis.", "first chunk"),
    Mistake("heads-scrambled", Scrambled(), "Heads and tokens of what attention gave are mixed: a reshape is no transpose.", "first chunk"),
    Mistake("attended-transposed", Transposed(), "finish() takes what attention gave as (B, H, T, D), heads before tokens.", "first chunk"),
    Mistake("no-attention", NoAttention(), "The queries go into finish(): attention is missing.", "first chunk"),
    Mistake("residual-twice", ResidualTwice(), "x is added to the block's output once more. finish() has done that.", "first chunk"),
    Mistake("no-residual", FinishesFromZero(), "finish() is given zeros. Give it the x that came into the block.", "first chunk"),
    Mistake("normed-residual", FinishesNormed(), "finish() is given a normalised x. Give it the x that came into the block, as it is.", "first chunk"),
    Mistake("finishes-from-the-embedding", FinishesFromTheEmbedding(), "Every block's finish() is given the embedding. Give it the x that came into that block.", "several layers"),
    Mistake("embedding-into-every-block", EmbeddingIntoEveryBlock(), "Every block gets the embedding. A block gets what the one before it gave.", "several layers"),
    Mistake("first-layer-only", FirstLayerOnly(), "Only the first layer's output counts.", "several layers"),
    Mistake("layers-reversed", LayersReversed(), "The layers are run in reverse order.", "several layers"),
    Mistake("no-unembedding", UnembedForgotten(), "The last block's output comes back: model.unembed(x) is missing.", "first chunk"),
    Mistake("last-logits-only", LastLogitsOnly(), "Only the last position's logits come back. Return those of all T.", "first chunk"),
    Mistake("probabilities", Probabilities(), "These are probabilities. Return the logits, before any softmax.", "first chunk"),
    Mistake("best-tokens", BestTokens(), "The best tokens come back. Return the logits, (B, T, vocab_size).", "first chunk"),
    Mistake("tokens-before-rows", TokensInFront(), "The logits come back as (T, B, vocab_size). Sequences come first.", "first chunk"),
    Mistake("never-advances", NeverAdvances(), "cache.advance(T) is missing: the next chunk is written over this one.", "first chunk"),
    Mistake("advances-by-one", AdvancesByOne(), "advance(1) after a chunk of T tokens. Advance by T.", "first chunk"),
    Mistake("advances-by-all", AdvancesByAll(), "advance() is given the tokens held in all. Give it the new ones, T.", "token by token"),
    Mistake("advances-in-the-loop", AdvancesInTheLoop(), "advance() is called in every layer. Once, after the last one.", "several layers"),
    Mistake("advances-first", AdvancesFirst(), "advance() is called before the layers append: they write behind rows that nobody wrote.", "first chunk"),
    Mistake("projects-twice", ProjectsTwice(), "Each token is projected twice in each layer. One qkv() gives all three.", "rows computed"),
    Mistake("prefix-by-prefix", PrefixByPrefix(), "The chunk is run again for each of its tokens. One pass gives the logits of all.", "rows computed"),
    Mistake("layers-run-again", LayerAfterLayerAgain(), "For each layer all the layers below it are run again. Go on with the x that you have.", "rows computed"),
    Mistake("clips-the-chunk", ClipsTheChunk(), "Tokens that do not fit are cut off without a word. Refuse the chunk.", "no room"),
    Mistake("ignores-the-chunk", IgnoresTheChunk(), "A chunk that does not fit is ignored without a word. Let the ValueError out.", "no room"),
    Mistake("swallows-the-refusal", Swallows(), "The cache's ValueError is caught, and decoding goes on without a past. Let it out.", "no room"),
    Mistake("keeps-what-fits", KeepsWhatFits(), "Of a chunk that does not fit, the first tokens are kept. Ask for room for all T first.", "no room"),
    Mistake("another-error", OtherError(), "The cache's ValueError is turned into another exception.", "no room"),
)  # fmt: skip


def with_sdpa(model, cache, tokens):
    """PyTorch's own attention; the mask is the last rows of a triangle."""
    held, new = len(cache), tokens.shape[1]
    hidden = model.embed(tokens)
    mask = torch.ones(held + new, held + new, dtype=torch.bool).tril()[held:]
    for i in range(len(model.blocks)):
        q, k, v = model.blocks[i].qkv(hidden, torch.arange(held, held + new))
        K, V = cache.append(i, k, v)
        attended = torch.nn.functional.scaled_dot_product_attention(q, K, V, attn_mask=mask, enable_gqa=True)
        hidden = model.blocks[i].finish(hidden, attended)
    cache.advance(new)
    return model.unembed(hidden)


def with_einsum(model, cache, tokens):
    """Grouped einsum without a copy; the model's own mask, -inf added."""
    T = tokens.shape[1]
    positions = torch.tensor([len(cache) + t for t in range(T)])
    hidden = torch.where(model.mask(len(cache), T), 0.0, -math.inf)
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, positions)
        K, V = cache.append(layer, k, v)
        B, H, _, D = q.shape
        q = q.reshape(B, K.shape[1], -1, T, D)  # (B, Hkv, G, T, D)
        scores = torch.einsum("bngtd,bnsd->bngts", q, K) * D**-0.5 + hidden
        attended = torch.einsum("bngts,bnsd->bngtd", scores.softmax(-1), V).reshape(B, H, T, D)  # (B, H, T, D)
        x = block.finish(x, attended)
    cache.advance(T)
    return model.unembed(x)


def with_loops(model, cache, tokens):
    """Loops over rows, heads and tokens; the slice takes the place of a mask."""
    start, T = len(cache), tokens.shape[1]
    x = model.embed(tokens)
    for layer, block in enumerate(model.blocks):
        q, k, v = block.qkv(x, torch.arange(T) + start)
        K, V = cache.append(layer, k, v)
        out = torch.zeros_like(q)
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                n = h // (q.shape[1] // K.shape[1])
                for t in range(T):
                    keys, values = K[b, n, : start + t + 1], V[b, n, : start + t + 1]
                    out[b, h, t] = (keys @ q[b, h, t] / q.shape[3] ** 0.5).softmax(0) @ values
        x = block.finish(x, out)
    cache.advance(T)
    return model.unembed(x)


def one_at_a_time(model, cache, tokens):
    """The tokens of a chunk go through all layers one by one, with an advance for each."""
    if not cache.can_append(tokens.shape[1]):
        raise ValueError("no room")
    parts = []
    for token in tokens.unbind(dim=1):
        x = model.embed(token[:, None])
        for layer, block in enumerate(model.blocks):
            q, k, v = block.qkv(x, torch.tensor([len(cache)]))
            K, V = cache.append(layer, k, v)
            x = block.finish(x, Base().attend(q, K, V, None))
        cache.advance(1)
        parts.append(model.unembed(x))
    return torch.cat(parts, dim=1)


class NoMaskForOne(Base):
    def mask(self, cache, start, T):
        return None if T == 1 else super().mask(cache, start, T)


class Float32Softmax(Base):
    def scores(self, q, K):
        return super().scores(q, K).float()

    def attend(self, q, K, V, mask):
        return super().attend(q, K, V.float(), mask).to(q.dtype)


VARIANTS = (
    Variant("repeat_interleave", Base()),
    Variant("no mask for one token", NoMaskForOne()),
    Variant("PyTorch's attention", with_sdpa),
    Variant("grouped einsum", with_einsum),
    Variant("loops", with_loops),
    Variant("one token at a time", one_at_a_time),
    Variant("softmax in float32", Float32Softmax()),
)


# Right in the usual portions and sizes only.


class ScaledByKVHeads(Base):
    def attend(self, q, K, V, mask):
        G = q.shape[1] // K.shape[1]
        scores = q @ self.repeat(K, G).transpose(2, 3) / K.shape[1]
        return self.hide(scores, mask).softmax(dim=-1) @ self.repeat(V, G)


class HalfOfD(Base):
    def scores(self, q, K):
        return q @ K.transpose(2, 3) / (q.shape[3] / 2)


class NewestHiddenOnly(Base):
    def mask(self, cache, start, T):
        mask = super().mask(cache, start, T)
        if start:
            mask = torch.ones_like(mask)
            mask[:-1, -1] = False
        return mask


class PromptProjectedTwice(Base):
    def block(self, cache, layer, block, x, positions, mask):
        if x.shape[1] > 3:
            block.qkv(x, positions)
        return super().block(cache, layer, block, x, positions, mask)


class CropsThePrompt(Base):
    def __call__(self, model, cache, tokens):
        return super().__call__(model, cache, tokens[:, -cache.max_len :])


class CropsThePromptsEnd(Base):
    def __call__(self, model, cache, tokens):
        return super().__call__(model, cache, tokens[:, : cache.max_len])


MISTAKES += (
    Mistake(
        "scaled-by-kv-heads",
        ScaledByKVHeads(),
        "The scores are divided by the number of KV heads. Divide by the root of D.",
        "first chunk",
    ),
    Mistake("half-of-d", HalfOfD(), "The scores are divided by D/2. Divide by the root of D.", "first chunk"),
    Mistake(
        "newest-hidden-only",
        NewestHiddenOnly(),
        "In a chunk behind held tokens only the newest key is hidden. Each token must not see any that follow it.",
        "any chunks",
    ),
    Mistake(
        "prompt-projected-twice",
        PromptProjectedTwice(),
        "A long chunk goes through the projections twice.",
        "rows computed",
    ),
    Mistake(
        "crops-the-prompt",
        CropsThePrompt(),
        "A prompt longer than the cache loses its beginning in silence. Let the cache refuse it.",
        "no room",
    ),
    Mistake(
        "crops-the-prompts-end",
        CropsThePromptsEnd(),
        "A prompt longer than the cache loses its end in silence. Let the cache refuse it.",
        "no room",
    ),
)


class CausalWhenEmpty(Base):
    """PyTorch's own triangle for the first chunk, where it is the right one."""

    def mask(self, cache, start, T):
        return None if start == 0 or T == 1 else super().mask(cache, start, T)

    def attend(self, q, K, V, mask):
        first = mask is None and q.shape[2] == K.shape[2]
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, K, V, attn_mask=mask, is_causal=first, enable_gqa=True)


class AsksFirst(Base):
    """Asks for room before anything is computed; positions are a list."""

    def __call__(self, model, cache, tokens):
        if not cache.can_append(tokens.shape[1]):
            raise ValueError("no room")
        return super().__call__(model, cache, tokens)

    def positions(self, cache, start, T):
        return list(range(start, start + T))


VARIANTS += (Variant("is_causal while nothing is held", CausalWhenEmpty()), Variant("room asked first", AsksFirst()))
