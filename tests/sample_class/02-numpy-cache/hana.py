# about: one cache for all blocks; the test compares only the best token
# expect: 2.1 full, 2.2 full, 2.3 part, 2.4 part

# %% exercise-2-1
import numpy as np


class KVCache:
    def __init__(self, max_len, width):
        self.max_len, self.width, self.used = max_len, width, 0
        self.K, self.V = np.empty((max_len, width)), np.empty((max_len, width))

    def __len__(self):
        return self.used

    def append(self, k, v):
        if self.used == self.max_len:
            raise ValueError(f"holds {self.used} of {self.max_len} tokens, 1 more asked")
        if np.shape(k) != (self.width,) or np.shape(v) != (self.width,):
            raise ValueError(f"want two rows of {self.width}, got {np.shape(k)} and {np.shape(v)}")
        self.K[self.used], self.V[self.used] = k, v
        self.used += 1

    def rows(self):
        return self.K[: self.used], self.V[: self.used]

    def reset(self):
        self.used = 0


# %% exercise-2-2
def block_step(block, cache, x):
    h = block.norm(x)
    cache.append(block.project_k(h), block.project_v(h))
    K, V = cache.rows()
    q = block.project_q(h)
    weights = np.exp(K @ q / np.sqrt(len(q)))
    return block.finish(x, weights @ V / weights.sum())


# %% exercise-2-3
class CachedDecoder:
    def __init__(self, model, max_len):
        self.model, self.max_len = model, max_len
        self.caches = [KVCache(max_len, model.width)] * len(model.blocks)

    def __len__(self):
        return len(self.caches[0])

    def step(self, token):
        if not 0 <= token < self.model.vocab_size:
            raise ValueError(f"token {token} of a vocabulary of {self.model.vocab_size}")
        if len(self) == self.max_len:
            raise ValueError(f"holds {len(self)} of {self.max_len} tokens, 1 more asked")
        x = self.model.embed(token, len(self))
        for block, cache in zip(self.model.blocks, self.caches, strict=True):
            x = block_step(block, cache, x)
        return self.model.unembed(x)

    def reset(self):
        for cache in self.caches:
            cache.reset()


# %% exercise-2-4
def accepts(make_decoder, recompute, vocab_size, max_len):
    def same(decoder, tokens, start=0):
        want = recompute(tokens)
        return all(np.argmax(decoder.step(tokens[t])) == np.argmax(want[t]) for t in range(start, len(tokens)))

    def refused(decoder, token):
        before = len(decoder)
        try:
            decoder.step(token)
        except ValueError:
            return len(decoder) == before
        return False

    size, room = vocab_size, max_len
    first = [size - 1, size - 1, *((3 * t + 1) % size for t in range(room - 2))]
    second = [(5 * t + 2) % size for t in range(room)]
    decoder = make_decoder()
    if not same(decoder, first[:3]):
        return False
    if not all(refused(decoder, token) for token in (-1, size, size + 1)):
        return False
    if not same(decoder, first, start=3) or len(decoder) != room:
        return False
    if not refused(decoder, first[0]) or not refused(decoder, first[0]):
        return False
    decoder.reset()
    return len(decoder) == 0 and same(decoder, second) and len(decoder) == room and refused(decoder, second[0])
