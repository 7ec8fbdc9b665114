# %% [markdown]
# # 06 · Paging
#
# **At the end of this lesson you can claim:** *I keep the caches of many requests in blocks scattered over one pool, share
# and take back blocks, and serve more requests than fit at once, and no output moves.*
#
# You need lessons 04 and 05. It takes three to four hours; the first check turns green within fifteen minutes.
#
# **Letters.** `B` sequences, `T` new tokens, `S` tokens held, `H` query heads, `Hkv` KV heads, `D` head dim. A **block** has
# `block_size` **slots**, one for each token. A **pool** has `num_blocks` blocks.
#
# ## Predict
#
# Blocks of four slots. A holds 5 tokens, B holds 3. How many slots are taken? And when A has grown to 9, and to 13?
#
# *Your guess:* ...

# %%
import torch

from autograde import check, mine_or, passed
from kvlib.gqa import gqa_attend
from kvlib.plots_paging import draw_utilisation
from kvlib.utilisation import layouts, sample_requests

torch.set_printoptions(precision=3, sci_mode=False)
torch.set_num_threads(1)  # small tensors: more threads would only wait for each other

# %% [markdown]
# ## What reserving costs
#
# Nobody knows how long an answer gets. The cache of lesson 04 reserves `max_len` slots for each request. A padded batch
# gives every row as many as the longest has. **Paging** takes small blocks when they are needed. Forty made-up requests:

# %%
draw_utilisation(layouts(sample_requests(40), max_len=1024, block_size=16))

# %% [markdown]
# Kwon et al. measured in 2023 that 20.4 to 38.2% of the memory reserved for caches held tokens.

# %% [markdown]
# ## Blocks
#
# A sequence takes a block wherever one is free, and only its last one is partly empty. Two sequences in blocks of 4, and
# one in blocks of 16, vLLM's default:

# %%
print("block  lengths   slots  empty")
for block_size, lengths in ((4, [5, 3]), (4, [9, 3]), (4, [13, 3]), (16, [17])):
    slots = sum(-(-length // block_size) * block_size for length in lengths)  # -(-a // b) rounds up
    print(f"{block_size:>5}  {lengths!s:<8} {slots:>6} {slots - sum(lengths):>6}")

# %% [markdown]
# A pool of 12 slots holds the first pair, but cannot promise that one of them may grow. So somebody must know what is free,
# and say no *before* anything has changed.

# %% [markdown] card="6.1"
# Numbers only, no tensors.
#
# - Blocks are 0 to `num_blocks - 1`. Which free ones you give out is up to you.
# - `num_free`, an attribute or a property: the blocks that nobody holds.
# - `allocate`: n different free blocks. Fewer are free, or n below 0: `ValueError`, and none is taken.
# - `free`: held blocks, in any mixture and order. One of them not held, or named twice: `ValueError`, and none is freed.


# %% exercise="6.1"
class BlockAllocator:
    """Who holds which block of a pool."""

    def __init__(self, num_blocks):
        ### BEGIN SOLUTION
        self.pool = list(range(num_blocks))
        self.held = set()
        ### END SOLUTION

    @property
    def num_free(self):
        ### BEGIN SOLUTION
        return len(self.pool)
        ### END SOLUTION

    def can_allocate(self, n):
        """Whether n blocks are free, True or False. Takes nothing."""
        ### BEGIN SOLUTION
        return n <= len(self.pool)
        ### END SOLUTION

    def allocate(self, n):
        """Returns: a new list of n blocks; [] for n = 0. The caller may change it."""
        ### BEGIN SOLUTION
        if n < 0 or not self.can_allocate(n):
            raise ValueError(f"{n} blocks asked, {self.num_free} are free")
        blocks = [self.pool.pop() for _ in range(n)]
        self.held.update(blocks)
        return blocks
        ### END SOLUTION

    def free(self, blocks):
        """Takes back a list of blocks. The list is the caller's: leave it as it is, and keep no hold of it."""
        ### BEGIN SOLUTION
        if len(set(blocks)) < len(blocks) or not self.held.issuperset(blocks):
            raise ValueError(f"not all of {blocks} are held, once each")
        self.held -= set(blocks)
        self.pool += blocks
        ### END SOLUTION


# %% check="6.1"

# %% [markdown] hints="6.1"
#

# %% [markdown]
# ## Where is token 4?
#
# A **block table** lists a sequence's blocks in the order of its tokens. Say A has 5 tokens in blocks `[7, 2]`. Token 4 lies
# in block 2, place 0. One number tells both, the **slot**: block times `block_size` plus place. A's slots:

# %%
print([block * 4 + place for block in [7, 2] for place in range(4)][:5])

# %% [markdown]
# Slot 31 is followed by 8. Whoever just adds 1 writes into a stranger's block.

# %% [markdown] card="6.2"
# `seq` is a name: any text or whole number. 7, "7", 0 and "" are four sequences.
#
# - Others take blocks of `allocator` too. It has `can_allocate(n)`, `allocate(n)` and `free(blocks)`, and no `num_free`.
# - A block is taken when the last one is full and a token comes: `table(seq)` has `ceil(length / block_size)` blocks. They
#   stay in place; new ones go behind.
# - No room for all `num_tokens`, or `num_tokens` below 1: `ValueError`. No block is taken then, nothing changes, and a new
#   sequence stays unknown.
# - `table` and `length` of an unknown sequence: `ValueError`.


# %% exercise="6.2"
class BlockTables:
    """The blocks of many sequences over one pool, and the slots of their tokens."""

    def __init__(self, allocator, block_size):
        ### BEGIN SOLUTION
        self.allocator, self.block_size = allocator, block_size
        self.tables, self.lengths = {}, {}
        ### END SOLUTION

    def append(self, seq, num_tokens):
        """Room for num_tokens more; a sequence not seen before starts empty.

        Returns: a new list, their slots in order.
        """
        ### BEGIN SOLUTION
        table, start = self.tables.get(seq, []), self.lengths.get(seq, 0)
        more = -(-(start + num_tokens) // self.block_size) - len(table)
        if num_tokens < 1 or not self.allocator.can_allocate(more):
            raise ValueError(f"no room for {num_tokens} more tokens of {seq!r}: {more} blocks")
        table = table + self.allocator.allocate(more)
        self.tables[seq], self.lengths[seq] = table, start + num_tokens
        size = self.block_size
        return [table[p // size] * size + p % size for p in range(start, start + num_tokens)]
        ### END SOLUTION

    def table(self, seq):
        """Returns: a list of its blocks, in the order of its tokens."""
        ### BEGIN SOLUTION
        if seq not in self.tables:
            raise ValueError(f"no sequence {seq!r}")
        return self.tables[seq]
        ### END SOLUTION

    def length(self, seq):
        """Returns: how many tokens it has."""
        ### BEGIN SOLUTION
        if seq not in self.lengths:
            raise ValueError(f"no sequence {seq!r}")
        return self.lengths[seq]
        ### END SOLUTION


# %% check="6.2"

# %% [markdown] hints="6.2"
#

# %% [markdown]
# ## Rows into slots
#
# The memory itself is two tensors for each layer, the **pools** of keys and values. Padding in a batch has slot -1, and there
# the trap waits: for a tensor, -1 is the last one.

# %%
pool = torch.zeros(3, 4)  # 3 blocks of 4 slots, one number each
slots = torch.tensor([9, -1])
pool[slots // 4, slots % 4] = torch.tensor([7.0, 8.0])
print(pool)  # 8 was padding

# %% [markdown] card="6.3"
# - Row i goes to slot `slot_mapping[i]`, in place; slots come in any order, none of them twice. Nothing else changes.
# - Slot -1 is padding: its row is written nowhere, whatever it holds, NaN too.
# - Any other slot outside the pool is a `ValueError`, and then nothing is written.
# - Leave `rows` and `slot_mapping` as they are.


# %% exercise="6.3"
def write_slots(pool, rows, slot_mapping):
    """Write rows[i] to slot slot_mapping[i] of the pool: slot = block * block_size + offset.

    pool: (num_blocks, block_size, Hkv, D). rows: (N, Hkv, D). slot_mapping: int64 (N,).
    """
    ### BEGIN SOLUTION
    num_blocks, block_size = pool.shape[:2]
    real = slot_mapping != -1
    slots = slot_mapping[real]
    if ((slots < 0) | (slots >= num_blocks * block_size)).any():
        raise ValueError(f"slots {slots.tolist()} asked of a pool of {num_blocks * block_size}")
    pool[slots // block_size, slots % block_size] = rows[real]
    ### END SOLUTION


# %% check="6.3"

# %% [markdown] hints="6.3"
#

# %% [markdown]
# ## Attention through a table
#
# A query does not care where its keys lie, only whose they are. The table says which blocks; `seq_lens` says how many of
# their rows are tokens. The rest of the last block, and all others, may hold anything: NaN too, which no mask takes away.

# %% [markdown] card="6.4"
# - `q` belongs to the T newest tokens of each sequence. Their rows are written already, and `seq_lens` counts them.
# - Query t of row b stands at position `seq_lens[b] - T + t`, and sees the positions 0 to that of its own sequence.
# - A table lists a sequence's blocks in order, then -1. A full block may stand in two tables. Heads are grouped.
# - What lies elsewhere in the pools has no influence. Nothing that is passed in may change.


# %% exercise="6.4"
def paged_attend(q, K, V, block_tables, seq_lens):
    """Attention of the newest tokens over all that their sequences hold: (B, H, T, D).

    q: (B, H, T, D). K, V: pools (num_blocks, block_size, Hkv, D).
    block_tables: int64 (B, M), M entries each. seq_lens: int64 (B,).
    gqa_attend(q, k, v, mask) of lesson 04 is there: k, v (B, Hkv, S, D), mask (T, S), True = seen.
    """
    ### BEGIN SOLUTION
    T, block_size = q.shape[2], K.shape[1]
    outputs = []
    for row, table, S in zip(q, block_tables, seq_lens.tolist()):
        blocks = table[: -(-S // block_size)]  # rounded up
        k, v = (pool[blocks].flatten(0, 1)[:S].transpose(0, 1) for pool in (K, V))  # (Hkv, S, D)
        mask = torch.arange(S) <= torch.arange(S - T, S)[:, None]  # (T, S)
        outputs.append(gqa_attend(row[None], k[None], v[None], mask))  # (1, H, T, D)
    return torch.cat(outputs)
    ### END SOLUTION


# %% check="6.4"

# %% [markdown] hints="6.4"
#

# %% [markdown]
# ## A cache in blocks
#
# Now all of it, for one layer. Answers end, and rejected tokens are taken back: their blocks go to others, who must not see
# what was in them. In torch, two lists of places read a whole sequence at once, here 5 tokens in blocks `[2, 0]`:

# %%
pool = torch.arange(12).reshape(3, 4)  # 3 blocks of 4, one number for each token
print(pool)
print(pool[[2, 2, 2, 2, 0], [0, 1, 2, 3, 0]])

# %% [markdown] card="6.5"
# **Shapes:** `K`, `V` are pools `(num_blocks, block_size, Hkv, D)`, full of NaN; `k`, `v` are `(T, Hkv, D)`, in float64.
#
# - Token p stands at `[table[p // block_size], p % block_size]` in both pools. No row is kept anywhere else.
# - A table has `ceil(length / block_size)` blocks, also after `truncate`. The rest are free, and the check fills them with
#   NaN between calls.
# - `num_free`, an attribute or a property: the blocks that are in no table.
# - `ValueError`, and nothing changes: wrong shapes, no room for all T tokens, a length below 0 or above the one held, an
#   unknown sequence (but `append` starts one). Names are as in 6.2.
# - The caller reuses its `k` and `v`.


# %% exercise="6.5"
class PagedCache:
    """Keys and values of many sequences, in two pools that the caller made."""

    def __init__(self, K, V):
        ### BEGIN SOLUTION
        self.K, self.V, self.block_size = K, V, K.shape[1]
        self.pool = list(range(K.shape[0]))
        self.tables, self.lengths = {}, {}
        ### END SOLUTION

    @property
    def num_free(self):
        ### BEGIN SOLUTION
        return len(self.pool)
        ### END SOLUTION

    def append(self, seq, k, v):
        """Writes the rows of T more tokens."""
        ### BEGIN SOLUTION
        for rows in (k, v):
            if rows.shape != (len(k), *self.K.shape[2:]):
                raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)} do not fit {tuple(self.K.shape)}")
        table, start = self.tables.get(seq, []), self.lengths.get(seq, 0)
        size, positions = self.block_size, range(start, start + len(k))
        more = -(-(start + len(k)) // size) - len(table)
        if more > len(self.pool):
            raise ValueError(f"{more} blocks needed, {len(self.pool)} are free")
        table = table + [self.pool.pop() for _ in range(more)]
        blocks, offsets = [table[p // size] for p in positions], [p % size for p in positions]
        self.K[blocks, offsets], self.V[blocks, offsets] = k, v
        self.tables[seq], self.lengths[seq] = table, start + len(k)
        ### END SOLUTION

    def read(self, seq):
        """Returns: (K, V) of all its tokens, in order, (S, Hkv, D) each."""
        ### BEGIN SOLUTION
        table, size, positions = self.table(seq), self.block_size, range(self.length(seq))
        blocks, offsets = [table[p // size] for p in positions], [p % size for p in positions]
        return self.K[blocks, offsets], self.V[blocks, offsets]
        ### END SOLUTION

    def table(self, seq):
        """Returns: a list of its blocks, in the order of its tokens."""
        ### BEGIN SOLUTION
        self.length(seq)
        return self.tables[seq]
        ### END SOLUTION

    def length(self, seq):
        """Returns: how many tokens it has."""
        ### BEGIN SOLUTION
        if seq not in self.lengths:
            raise ValueError(f"no sequence {seq!r}")
        return self.lengths[seq]
        ### END SOLUTION

    def truncate(self, seq, length):
        """Keeps the first `length` tokens. With 0 it is empty, and still known."""
        ### BEGIN SOLUTION
        if not 0 <= length <= self.length(seq):
            raise ValueError(f"{seq!r} has {self.lengths[seq]} tokens, cannot keep {length}")
        keep, table = -(-length // self.block_size), self.tables[seq]
        self.pool += table[keep:]
        self.tables[seq], self.lengths[seq] = table[:keep], length
        ### END SOLUTION

    def free(self, seq):
        """Gives all its blocks back, and forgets it."""
        ### BEGIN SOLUTION
        self.truncate(seq, 0)
        del self.tables[seq], self.lengths[seq]
        ### END SOLUTION


# %% check="6.5"

# %% [markdown] hints="6.5"
#

# %% [markdown]
# ## One prompt, many answers
#
# Ten answers to one prompt need its blocks once. A **fork** holds the same blocks, and each block counts its holders. Say A
# has 6 tokens in blocks `[7, 2]` of 4, and B is a fork of it. Block 7 is full: nobody writes there any more. But token 6 of
# both would go to slot 10. So whoever writes first gets a copy of block 2, say block 5, and writes to slot 22: **copy on
# write**. The other is then the last holder of block 2, and writes in place.

# %% [markdown] card="6.6"
# Numbers only. The caller copies each `(source block, target block)` in its pools, and then writes the new rows.
#
# - Names, tables, lengths and slots as in 6.2; `num_free` counts the blocks that nobody holds.
# - `fork` takes no block. Only a partly filled last block with other holders is copied, when somebody appends to it. The
#   copy needs a block too.
# - `free` and a copy each take one holder away. A block without holders is free.
# - `ValueError`, and nothing changes: no room for all of it, `num_tokens` below 1, a fork onto a known name, an unknown
#   sequence (but `append` starts one).


# %% exercise="6.6"
class SharedTables:
    """The blocks of many sequences, some of them held together."""

    def __init__(self, num_blocks, block_size):
        ### BEGIN SOLUTION
        self.block_size = block_size
        self.holders = [0] * num_blocks
        self.tables, self.lengths = {}, {}
        ### END SOLUTION

    @property
    def num_free(self):
        ### BEGIN SOLUTION
        return self.holders.count(0)
        ### END SOLUTION

    def ref_count(self, block):
        """Returns: how many sequences hold this block, 0 for a free one."""
        ### BEGIN SOLUTION
        return self.holders[block]
        ### END SOLUTION

    def append(self, seq, num_tokens):
        """Returns: (slots, copies): num_tokens slots, in order, and a list of pairs.

        Where nothing is copied, the list is [].
        """
        ### BEGIN SOLUTION
        table, start = list(self.tables.get(seq, [])), self.lengths.get(seq, 0)
        size = self.block_size
        copy = start % size > 0 and self.holders[table[-1]] > 1
        more = -(-(start + num_tokens) // size) - len(table)
        free = [block for block, count in enumerate(self.holders) if count == 0]
        if num_tokens < 1 or more + copy > len(free):
            raise ValueError(f"no room for {num_tokens} more tokens of {seq!r}: {len(free)} blocks are free")
        taken, copies = free[: more + copy], []
        for block in taken:
            self.holders[block] = 1
        if copy:
            copies = [(table[-1], taken[0])]
            self.holders[table.pop()] -= 1
        table += taken  # the copy stands where the shared block was
        self.tables[seq], self.lengths[seq] = table, start + num_tokens
        return [table[p // size] * size + p % size for p in range(start, start + num_tokens)], copies
        ### END SOLUTION

    def fork(self, seq, new):
        """`new` goes on from all tokens of seq, and so does seq."""
        ### BEGIN SOLUTION
        table = self.table(seq)
        if new in self.tables:
            raise ValueError(f"{new!r} is there already")
        for block in table:
            self.holders[block] += 1
        self.tables[new], self.lengths[new] = list(table), self.lengths[seq]
        ### END SOLUTION

    def free(self, seq):
        """Forgets a sequence, and lets go of its blocks."""
        ### BEGIN SOLUTION
        for block in self.table(seq):
            self.holders[block] -= 1
        del self.tables[seq], self.lengths[seq]
        ### END SOLUTION

    def table(self, seq):
        """Returns: a list of its blocks, in the order of its tokens."""
        ### BEGIN SOLUTION
        if seq not in self.tables:
            raise ValueError(f"no sequence {seq!r}")
        return self.tables[seq]
        ### END SOLUTION

    def length(self, seq):
        """Returns: how many tokens it has."""
        ### BEGIN SOLUTION
        self.table(seq)
        return self.lengths[seq]
        ### END SOLUTION


# %% check="6.6"

# %% [markdown] hints="6.6"
#

# %%
from kvlib import shared_tables
from kvlib.widgets import explore_blocks

Tables = mine_or("6.6", shared_tables.SharedTables)
explore_blocks(lambda: Tables(8, 4))  # 8 blocks of 4; hatched slots are taken and empty

# %% [markdown]
# ## Shared without being asked
#
# A thousand requests with one system prompt do not say that they share it: the server has to find out. A block's rows
# depend on **every token before it**, on the model and its adapter (small extra weights), and no tenant (customer) may be
# served from another's prompt. All of that belongs in the **key** under which a block is found. In blocks of 2,
# `[1 2][3 4]` and `[9 9][3 4]` end in the same tokens, and in different rows.
#
# A released block keeps its rows until they are written over. Until then it is free, *and* can be found.

# %% [markdown] card="6.7"
# Bookkeeping only, plain Python. The caller keeps the pool, and writes the rows.
#
# - Cached tokens lie in blocks computed for exactly these tokens from the start, and this identity: as many whole
#   blocks as can be found. At least one token is left to compute.
# - Only full blocks are shared, from `computed` on. What a request did not compute before its release is never found.
# - A block is found, held or free, until it is given out anew. Only blocks that no request holds are given out.
# - `ValueError`, and nothing changes: no room, a request known already or unknown, no tokens.


# %% exercise="6.7"
class PrefixIndex:
    """Block tables for requests that may begin alike.

    admit(request, tokens, identity) -> num_cached: a new request gets a table. request: a text. tokens:
        whole numbers of any size and sign, a list. identity: a list of texts, [model, adapter, tenant].
        num_cached: how many of its first tokens need not be computed, a multiple of block_size.
    table(request): its blocks in order, ceil(len(tokens) / block_size) of them.
    computed(request): the caller has written all its blocks.
    release(request): the request ends, and is unknown again.
    num_free: how many blocks no request holds.
    """

    def __init__(self, num_blocks, block_size):
        ### BEGIN SOLUTION
        self.block_size = block_size
        self.free = dict.fromkeys(range(num_blocks))  # in the order in which they will be given out
        self.holders = [0] * num_blocks
        self.requests = {}  # request: (table, keys)
        self.blocks_of, self.key_of = {}, {}  # key: a set of blocks; block: its key
        ### END SOLUTION

    @property
    def num_free(self):
        ### BEGIN SOLUTION
        return len(self.free)
        ### END SOLUTION

    def admit(self, request, tokens, identity):
        ### BEGIN SOLUTION
        if request in self.requests or not tokens:
            raise ValueError(f"request {request!r} is known already, or has no tokens")
        size, key, keys, hits = self.block_size, tuple(identity), [], []
        for end in range(size, len(tokens) + 1, size):
            key = (key, tuple(tokens[end - size : end]))  # holds the key before, and so everything before
            keys.append(key)
        for key in keys[: (len(tokens) - 1) // size]:  # the last token is always computed
            if not self.blocks_of.get(key):
                break
            hits.append(max(self.blocks_of[key], key=lambda block: self.holders[block]))
        missing = -(-len(tokens) // size) - len(hits)
        room = len(self.free) - sum(self.holders[block] == 0 for block in hits)
        if missing > room:
            raise ValueError(f"request {request!r} needs {missing} more blocks, {room} free")
        for block in hits:  # first of all: a new block must not be one of them
            self.free.pop(block, None)
        new = []
        for _ in range(missing):
            new.append(next(iter(self.free)))
            del self.free[new[-1]]
            if new[-1] in self.key_of:  # its rows will be written over
                self.blocks_of[self.key_of.pop(new[-1])].discard(new[-1])
        for block in hits + new:
            self.holders[block] += 1
        self.requests[request] = (hits + new, keys)
        return len(hits) * size
        ### END SOLUTION

    def table(self, request):
        ### BEGIN SOLUTION
        if request not in self.requests:
            raise ValueError(f"request {request!r} is unknown")
        return list(self.requests[request][0])
        ### END SOLUTION

    def computed(self, request):
        ### BEGIN SOLUTION
        if request not in self.requests:
            raise ValueError(f"request {request!r} is unknown")
        for block, key in zip(*self.requests[request], strict=False):  # a last block that is not full has no key
            self.blocks_of.setdefault(key, set()).add(block)
            self.key_of[block] = key
        ### END SOLUTION

    def release(self, request):
        ### BEGIN SOLUTION
        if request not in self.requests:
            raise ValueError(f"request {request!r} is unknown")
        table, _ = self.requests.pop(request)
        for block in reversed(table):  # the end of a prompt is given out before its beginning
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.free[block] = None
        ### END SOLUTION


# %% check="6.7"

# %% [markdown] hints="6.7"
#

# %% [markdown]
# ## Who runs, and who waits
#
# A pool of five blocks of 4, and two requests with a prompt of 4 and 9 new tokens. The last one is never stored: each grows
# to 4 + 9 - 1 = 12, three blocks. Reserve these, and one runs after the other. Admit on what they hold *now*, and both run,
# until a step finds no block. Then one is **preempted**: its blocks go back. Later it starts again, with its prompt *and all
# it has made*.

# %% [markdown] card="6.8"
# - Each request gets what it would get alone. One that can never fit gets `None`, and holds up nobody.
# - All blocks are given back in the end. Who goes first and who gives way is up to you.
# - Start who waits once there is room, step together what runs, stop a request when it has its n tokens.
# - Where all fit, compute nothing twice. A preempted request keeps what it has made.


# %% exercise="6.8"
def serve(engine, requests):
    """The new tokens of each request, from a pool that may be too small for all of them at once.

    requests: a list of {"prompt": [...], "new": n}. Returns: a list of lists of n tokens, in that order.
    engine.num_blocks, engine.block_size: the pool.
    engine.free_blocks(): blocks that nobody holds.
    engine.start(i, tokens): computes the KV of all these tokens for request i (its number in
        requests), in ceil(len / block_size) blocks. Returns the next token.
    engine.step(ids): stores the newest token of each, in one more block where the last is full.
        Returns the next token of each, in the order of ids. All of them or none.
    engine.stop(i): gives the blocks of i back, and forgets it.
    What does not fit is refused with ValueError, and nothing changes; so is starting a request that
    runs, and stepping or stopping one that does not.
    """
    ### BEGIN SOLUTION
    made, waiting, running = [[] for _ in requests], [], []
    for i, request in enumerate(requests):
        if len(request["prompt"]) + request["new"] - 1 <= engine.num_blocks * engine.block_size:
            waiting.append(i)
        else:
            made[i] = None

    def goes_on(i, token):
        made[i].append(token)
        if len(made[i]) < requests[i]["new"]:
            return True
        engine.stop(i)
        return False

    while waiting or running:
        while running:
            try:
                tokens = engine.step(running)
            except ValueError:  # the newest gives way
                waiting.insert(0, running.pop())
                engine.stop(waiting[0])
            else:
                running = [i for i, token in zip(running, tokens) if goes_on(i, token)]
                break
        while waiting:
            tokens = requests[waiting[0]]["prompt"] + made[waiting[0]]
            if len(tokens) > engine.free_blocks() * engine.block_size:
                break
            i = waiting.pop(0)
            if goes_on(i, engine.start(i, tokens)):
                running.append(i)
    return made
    ### END SOLUTION


# %% check="6.8"

# %% [markdown] hints="6.8"
#

# %% [markdown]
# ## Experiment: a pool too small for all
#
# Your scheduler, a random transformer, and a paged cache of 7 blocks of 4. The longest of four requests grows to 5.
#
# *Your guess:* how often is one preempted, and whose tokens change ...

# %%
from kvlib import serve as scheduling
from kvlib.serving import Engine, alone
from kvlib.transformer import Transformer, TransformerConfig

sizes = dict(num_layers=2, width=32, num_heads=4, num_kv_heads=2, head_dim=8, hidden=24, vocab_size=50)
model = Transformer.random(TransformerConfig(**sizes), torch.Generator().manual_seed(6), torch.float64)
asked = ([7, 1, 4], 15), ([2, 9], 12), ([5, 5, 8], 14), ([6], 10)
requests = [{"prompt": prompt, "new": n} for prompt, n in asked]
as_alone = [alone(model, request) for request in requests]
once = sum(len(prompt) + n - 1 for prompt, n in asked)
notes = []


class Watched(Engine):
    """Notes who takes part in each step, and how many blocks are in use after it."""

    def step(self, ids):
        tokens = super().step(ids)
        notes.append((list(ids), self.blocks_in_use))
        return tokens


engine = Watched(model, num_blocks=7, block_size=4)
results = mine_or("6.8", scheduling.serve)(engine, requests)
for i in range(len(requests)):
    print(f"request {i}    ", "".join("#" if i in ids else "." for ids, used in notes))
print("blocks in use", "".join(str(used) for ids, used in notes))
print(f"{engine.preemptions} preemptions, {engine.computed} tokens computed; in a large pool {once}")
print(f"{engine.free_blocks()} blocks free at the end; each as alone:", results == as_alone)

# %% [markdown]
# A row of `#` is a request that runs. Where it breaks off, it was preempted, or is ready; its tokens do not change. What was
# computed twice is the price of a small pool. Kwon et al. report that this never cost more than 20% of the time that
# swapping the blocks to CPU memory and back took.

# %% [markdown]
# ## Explain
#
# 1. Two requests share a half-filled block. Why may neither write to it, while both may write behind a full one?
# 2. A prompt is found in the prefix index to its very last token. Why is one token computed all the same?
#
# *Write here, in your own words. Nobody grades it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** 17 tokens in blocks of 16. How many slots are taken, and how many are wasted?
#
# **Next week:** what does a request need to start again after it was preempted, and what will it cost?
