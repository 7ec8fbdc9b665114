"""Wrong and right ways to write the cached decoder. Each mistake changes one thing in `Base`."""

from __future__ import annotations

import numpy as np

from autograde.exercise import Mistake, Variant


def _attend(q, K, V):
    scores = np.array(K) @ q / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    return weights @ np.array(V) / weights.sum()


class Base:
    """Two lists of rows for each block."""

    def __init__(self, model, max_len):
        self.model, self.max_len, self.held = model, max_len, 0
        self.keys = [[] for _ in model.blocks]
        self.values = [[] for _ in model.blocks]

    def __len__(self):
        return self.held

    def position(self, token):
        return self.held

    def refuse(self, token):
        self.refuse_token(token)
        if self.held >= self.max_len:
            raise ValueError(f"holds {self.held} of {self.max_len} tokens, 1 more asked")

    def refuse_token(self, token):
        if not 0 <= token < self.model.vocab_size:
            raise ValueError(f"token {token} is not in 0..{self.model.vocab_size - 1}")

    def step(self, token):
        self.refuse(token)
        x = self.model.embed(token, self.position(token))
        for layer, block in enumerate(self.model.blocks):
            x = self.block(layer, block, x)
        self.held += 1
        return self.model.unembed(x)

    def block(self, layer, block, x):
        h = block.norm(x)
        self.keys[layer].append(block.project_k(h))
        self.values[layer].append(block.project_v(h))
        return block.finish(x, _attend(block.project_q(h), self.keys[layer], self.values[layer]))

    def reset(self):
        self.held = 0
        for rows in (*self.keys, *self.values):
            rows.clear()


class PositionZero(Base):
    def position(self, token):
        return 0


class PositionIsToken(Base):
    def position(self, token):
        return token


class PositionStartsAtOne(Base):
    def position(self, token):
        return self.held + 1


class PositionStuckAtOne(Base):
    def position(self, token):
        return min(self.held, 1)


class PositionClamped(Base):
    """No refusal: past the end the last position is used again."""

    def refuse(self, token):
        self.refuse_token(token)

    def position(self, token):
        return min(self.held, self.model.max_len - 1)


class PositionWraps(PositionClamped):
    def position(self, token):
        return self.held % self.model.max_len


class NeverFull(Base):
    """No refusal of its own: NumPy's IndexError comes out of the position table, at the model's length."""

    def refuse(self, token):
        self.refuse_token(token)


class SilentWhenFull(Base):
    """Past the end the last logits come back, and nothing is stored."""

    def step(self, token):
        if self.held >= self.max_len:
            return self.last
        self.last = super().step(token)
        return self.last


class SlidesWhenFull(Base):
    def step(self, token):
        if self.held >= self.max_len:
            self.held -= 1
            for rows in (*self.keys, *self.values):
                del rows[0]
        return super().step(token)


class CountsBeforeRefusing(Base):
    def step(self, token):
        if self.held >= self.max_len:
            self.held += 1
        return super().step(token)


class CapacityOfTheModel(Base):
    """Uses the model's length and not max_len."""

    def __init__(self, model, max_len):
        super().__init__(model, model.max_len)


class OneTooFew(Base):
    def __init__(self, model, max_len):
        super().__init__(model, max_len - 1)


class NegativeTokens(Base):
    def refuse_token(self, token):
        if token >= self.model.vocab_size:
            raise ValueError("token too large")


class LargeTokens(Base):
    def refuse_token(self, token):
        if token < 0:
            raise ValueError("negative token")


class VocabularyOffByOne(Base):
    def refuse_token(self, token):
        if not 0 <= token <= self.model.vocab_size:
            raise ValueError("no such token")


class ClampsTokens(Base):
    def refuse_token(self, token):
        pass

    def step(self, token):
        return super().step(min(max(token, 0), self.model.vocab_size - 1))


class StoresBeforeRefusing(Base):
    """The bad token has been through the blocks, in the caches, before it is refused."""

    def refuse_token(self, token):
        pass

    def step(self, token):
        vocab = self.model.vocab_size
        logits = super().step(token % vocab)
        if not 0 <= token < vocab:
            self.held -= 1
            raise ValueError("no such token")
        return logits


class OneCacheForAll(Base):
    def __init__(self, model, max_len):
        super().__init__(model, max_len)
        self.keys = [self.keys[0]] * len(model.blocks)
        self.values = [self.values[0]] * len(model.blocks)


class CacheInFirstBlockOnly(Base):
    def block(self, layer, block, x):
        if layer > 0:
            self.keys[layer].clear()
            self.values[layer].clear()
        return super().block(layer, block, x)


class OnlyFirstBlock(Base):
    def step(self, token):
        self.refuse(token)
        x = self.block(0, self.model.blocks[0], self.model.embed(token, self.held))
        self.held += 1
        return self.model.unembed(x)


class CountsEveryBlock(Base):
    """The length moves on in every block and not once in a step."""

    def step(self, token):
        logits = super().step(token)
        self.held += len(self.model.blocks) - 1
        return logits


class BlocksReversed(Base):
    def step(self, token):
        self.refuse(token)
        x = self.model.embed(token, self.held)
        for layer in reversed(range(len(self.model.blocks))):
            x = self.block(layer, self.model.blocks[layer], x)
        self.held += 1
        return self.model.unembed(x)


class EveryBlockFromTheEmbedding(Base):
    def step(self, token):
        self.refuse(token)
        embedded = self.model.embed(token, self.held)
        for layer, block in enumerate(self.model.blocks):
            x = self.block(layer, block, embedded)
        self.held += 1
        return self.model.unembed(x)


class BestToken(Base):
    def step(self, token):
        return int(np.argmax(super().step(token)))


class Probabilities(Base):
    def step(self, token):
        powers = np.exp(super().step(token))
        return powers / powers.sum()


class NoUnembedding(Base):
    def step(self, token):
        self.refuse(token)
        x = self.model.embed(token, self.held)
        for layer, block in enumerate(self.model.blocks):
            x = self.block(layer, block, x)
        self.held += 1
        return x


class RecomputesEverything(Base):
    """Keeps the tokens, and runs all of them through all blocks at every step."""

    def __init__(self, model, max_len):
        super().__init__(model, max_len)
        self.tokens = []

    def step(self, token):
        self.refuse(token)
        tokens, self.held = [*self.tokens, token], 0
        for rows in (*self.keys, *self.values):
            rows.clear()
        for each in tokens:
            logits = super().step(each)
        self.tokens = tokens
        return logits

    def reset(self):
        super().reset()
        self.tokens = []


class ResetDoesNothing(Base):
    def reset(self):
        pass


class ResetFirstBlockOnly(Base):
    def reset(self):
        self.held = 0
        self.keys[0].clear()
        self.values[0].clear()


class ResetLengthOnly(Base):
    def reset(self):
        self.held = 0


class TwoCachesOnly(Base):
    """Two caches whatever the number of blocks; zip drops the rest of the blocks without a word."""

    def __init__(self, model, max_len):
        super().__init__(model, max_len)
        self.keys, self.values = [[], []], [[], []]

    def step(self, token):
        self.refuse(token)
        x = self.model.embed(token, self.held)
        for layer, (block, _) in enumerate(zip(self.model.blocks, self.keys)):
            x = self.block(layer, block, x)
        self.held += 1
        return self.model.unembed(x)


class QueriesAgain(Base):
    """Projects the queries of all old tokens again."""

    def __init__(self, model, max_len):
        super().__init__(model, max_len)
        self.inputs = [[] for _ in model.blocks]

    def block(self, layer, block, x):
        self.inputs[layer].append(block.norm(x))
        for h in self.inputs[layer][:-1]:
            block.project_q(h)
        return super().block(layer, block, x)

    def reset(self):
        super().reset()
        self.inputs = [[] for _ in self.inputs]


class CachesOnTheClass(Base):
    """One set of caches for all decoders, emptied whenever a new one is made."""

    shared: list = []

    def __init__(self, model, max_len):
        super().__init__(model, max_len)
        self.shared[:] = zip(self.keys, self.values)

    def block(self, layer, block, x):
        self.keys[layer], self.values[layer] = self.shared[layer]
        return super().block(layer, block, x)


class ResetLosesTheLimit(Base):
    def reset(self):
        self.__init__(self.model, self.model.max_len)


class ResetLosesTheChecks(Base):
    again = False

    def reset(self):
        super().reset()
        self.again = True

    def refuse_token(self, token):
        if not self.again:
            super().refuse_token(token)


class OneTooMany(Base):
    """`>` where `>=` is meant."""

    def refuse(self, token):
        self.refuse_token(token)
        if self.held > self.max_len:
            raise ValueError("full")


_POSITION = "The position of the newest token is the number of tokens held before it."

MISTAKES = (
    Mistake("position-zero", PositionZero, f"Every token is embedded at position 0. {_POSITION}", "every position",
            "a course framework whose single-token forward always used position 0"),
    Mistake("position-is-token", PositionIsToken, f"The token's id is used as its position. {_POSITION}", "first token"),
    Mistake("position-from-one", PositionStartsAtOne, f"Positions start at 1. {_POSITION}", "first token"),
    Mistake("position-stuck", PositionStuckAtOne, f"The position stops at 1. {_POSITION}", "every position"),
    Mistake("clamped-position", PositionClamped, "Past the end the last position is used again. Refuse the token.", "full"),
    Mistake("position-wraps", PositionWraps, "Past the end positions start again at 0. Refuse the token.", "full"),
    Mistake("index-error", NeverFull, "Nothing checks for room: past the end NumPy's IndexError comes out. Check first.", "full"),
    Mistake("silent-when-full", SilentWhenFull, "Past the end the last logits come back again, as if all were well.", "full"),
    Mistake("slides-when-full", SlidesWhenFull, "Past the end the oldest token is dropped. Refuse the new one.", "full"),
    Mistake("counts-before-refusing", CountsBeforeRefusing, "The refused token is counted: check before anything changes.", "full"),
    Mistake("capacity-of-the-model", CapacityOfTheModel, "The model's own length is the limit, not max_len.", "full"),
    Mistake("one-too-few", OneTooFew, "It refuses one token too early: max_len tokens must fit.", "full"),
    Mistake("negative-tokens", NegativeTokens, "Token -1 is accepted: the table's last row comes back.", "bad tokens"),
    Mistake("large-tokens", LargeTokens, "Only negative tokens are refused; one past the vocabulary is not.", "bad tokens"),
    Mistake("vocabulary-off-by-one", VocabularyOffByOne, "Token vocab_size is let through: the last one is vocab_size - 1.", "bad tokens"),
    Mistake("clamps-tokens", ClampsTokens, "A bad token is moved into the vocabulary. Refuse it.", "bad tokens"),
    Mistake("stores-before-refusing", StoresBeforeRefusing,
            "The refused token is already in the caches: check before anything is written.", "bad tokens"),
    Mistake("one-cache-for-all-blocks", OneCacheForAll,
            "All blocks share one cache. `[KVCache(...)] * n` is one cache n times: make one for each block.", "several blocks"),
    Mistake("first-block-cached-only", CacheInFirstBlockOnly,
            "Only the first block remembers: the others attend to the newest token alone.", "several blocks"),
    Mistake("first-block-only", OnlyFirstBlock, "Only the first block is run.", "several blocks",
            "a course framework in which every layer used one block's weights"),
    Mistake("length-counts-blocks", CountsEveryBlock,
            "The length moves on in every block: with two blocks it is twice as large. Once a step is right.", "several blocks"),
    Mistake("blocks-reversed", BlocksReversed, "The blocks are run in reverse order.", "several blocks"),
    Mistake("embedding-into-every-block", EveryBlockFromTheEmbedding,
            "Every block gets the embedding. A block gets what the block before it gave.", "several blocks"),
    Mistake("best-token", BestToken, "The best token comes back. Return its logits, one for each token.", "first token"),
    Mistake("probabilities", Probabilities, "These are probabilities. Return the logits, before any softmax.", "first token"),
    Mistake("no-unembedding", NoUnembedding, "The last block's output comes back: model.unembed(x) is missing.", "first token"),
    Mistake("recomputes-everything", RecomputesEverything,
            "The logits are right, but every step runs all tokens through all blocks again: nothing is cached.", "rows computed"),
    Mistake("two-caches-only", TwoCachesOnly,
            "Only two blocks are run: there are two caches, and zip() stops at the shorter list.", "several blocks"),
    Mistake("queries-again", QueriesAgain,
            "Old queries are projected again at every step. A query is used once.", "rows computed"),
    Mistake("caches-shared-by-all-decoders", CachesOnTheClass,
            "Two decoders share their caches: they lie on the class, the module or the blocks. Keep them on self.", "reset"),
    Mistake("reset-loses-the-limit", ResetLosesTheLimit, "After reset() there is room for more than max_len.", "reset"),
    Mistake("reset-loses-the-checks", ResetLosesTheChecks, "After reset() bad tokens are no longer refused.", "reset"),
    Mistake("one-too-many", OneTooMany, "One token too many is let in: the test for room is held >= max_len.", "full"),
    Mistake("reset-does-nothing", ResetDoesNothing, "reset() leaves the tokens in place.", "reset"),
    Mistake("reset-first-block-only", ResetFirstBlockOnly, "reset() empties the first block's cache only.", "reset"),
    Mistake("reset-length-only", ResetLengthOnly, "reset() sets the length to 0 but leaves the old rows in the caches.", "reset"),
)  # fmt: skip


class Arrays:
    """One array for everything, written in place; the length in one place."""

    def __init__(self, model, max_len):
        self.model, self.n = model, 0
        self.rows = np.full((model.num_layers, 2, max_len, model.width), np.nan)

    def __len__(self):
        return self.n

    def step(self, token):
        if token < 0 or token >= self.model.vocab_size or self.n == self.rows.shape[2]:
            raise ValueError("refused")
        x = self.model.embed(token, self.n)
        for layer, block in enumerate(self.model.blocks):
            h = block.norm(x)
            self.rows[layer, :, self.n] = block.project_k(h), block.project_v(h)
            K, V = self.rows[layer, :, : self.n + 1]
            x = block.finish(x, _attend(block.project_q(h), K, V))
        self.n += 1
        return self.model.unembed(x)[None, :]

    def reset(self):
        self.n = 0


class Closure:
    """A generator for each run; refuses before it sends anything in."""

    def __init__(self, model, max_len):
        self.model, self.max_len = model, max_len
        self.reset()

    def reset(self):
        self.count, self.run = 0, self._run()
        next(self.run)

    def __len__(self):
        return self.count

    def step(self, token):
        class Refused(ValueError):
            pass

        if token not in range(self.model.vocab_size):
            raise Refused(f"token {token}")
        if self.count == self.max_len:
            raise Refused("context")
        self.count += 1
        return list(self.run.send(token))

    def _run(self):
        caches = [([], []) for _ in self.model.blocks]
        logits = None
        position = 0
        while True:
            token = yield logits
            x = self.model.embed(token, position)
            for block, (keys, values) in zip(self.model.blocks, caches):
                h = block.norm(x)
                keys.append(block.project_k(h))
                values.append(block.project_v(h))
                x = block.finish(x, _attend(block.project_q(h), keys, values))
            logits = self.model.unembed(x)
            position += 1


class Float32Rows(Base):
    def block(self, layer, block, x):
        out = super().block(layer, block, x)
        self.keys[layer][-1] = np.float32(self.keys[layer][-1])
        self.values[layer][-1] = np.float32(self.values[layer][-1])
        return out


VARIANTS = (
    Variant("lists", Base),
    Variant("one array for all", Arrays),
    Variant("a generator", Closure),
    Variant("float32 rows", Float32Rows),
)
