"""Shared block tables against plain lists: the test keeps the pool, copies, writes, and poisons what is free."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvlib.shared_tables import SharedTables

POISON = "poison"
NAMES = ("A", "B", "C", 0)


class Pool:
    """What a caller has: the memory itself, and for each sequence the rows that it must read."""

    def __init__(self, num_blocks, block_size):
        self.tables = SharedTables(num_blocks, block_size)
        self.num_blocks, self.size = num_blocks, block_size
        self.memory = [[POISON] * block_size for _ in range(num_blocks)]
        self.rows, self.written = {}, 0

    def append(self, seq, num_tokens):
        slots, copies = self.tables.append(seq, num_tokens)
        for source, target in copies:
            self.memory[target] = list(self.memory[source])
        for slot in slots:
            self.written += 1
            self.memory[slot // self.size][slot % self.size] = self.written
            self.rows.setdefault(seq, []).append(self.written)
        self.poison()
        return slots, copies

    def fork(self, seq, new):
        self.tables.fork(seq, new)
        self.rows[new] = list(self.rows[seq])

    def free(self, seq):
        self.tables.free(seq)
        del self.rows[seq]
        self.poison()

    def truncate(self, seq, length):
        self.tables.truncate(seq, length)
        del self.rows[seq][length:]
        self.poison()

    def holders(self):
        tables = [self.tables.table(seq) for seq in self.rows]
        return [sum(block in table for table in tables) for block in range(self.num_blocks)]

    def poison(self):
        for block, count in enumerate(self.holders()):
            if not count:
                self.memory[block] = [POISON] * self.size

    def read(self, seq):
        table = self.tables.table(seq)
        return [self.memory[table[p // self.size]][p % self.size] for p in range(self.tables.length(seq))]

    def check(self):
        assert set(self.tables.sequences) == set(self.rows)
        for seq, rows in self.rows.items():
            assert self.tables.length(seq) == len(rows)
            table = self.tables.table(seq)
            assert len(table) == len(set(table)) == -(-len(rows) // self.size)
            assert self.read(seq) == rows
        holders = self.holders()
        assert [self.tables.ref_count(block) for block in range(self.num_blocks)] == holders
        assert self.tables.num_free == holders.count(0)


class Machine(RuleBasedStateMachine):
    """Any history of calls, right and wrong, in a small pool."""

    def __init__(self):
        super().__init__()
        self.pool = Pool(5, 3)

    @rule(seq=st.sampled_from(NAMES), num_tokens=st.integers(1, 8))
    def append(self, seq, num_tokens):
        pool = self.pool
        length, table = len(pool.rows.get(seq, ())), pool.tables.table(seq) if seq in pool.rows else []
        must_copy = length % pool.size > 0 and pool.holders()[table[-1]] > 1
        needed = -(-(length + num_tokens) // pool.size) - len(table) + must_copy
        assert pool.tables.blocks_to_append(seq, num_tokens) == needed
        assert pool.tables.can_append(seq, num_tokens) == (needed <= pool.tables.num_free)
        if needed > pool.tables.num_free:
            with pytest.raises(ValueError, match="asked"):
                pool.append(seq, num_tokens)
            return
        others = [block for other in pool.rows if other != seq for block in pool.tables.table(other)]
        slots, copies = pool.append(seq, num_tokens)
        assert len(copies) == must_copy
        assert not {slot // pool.size for slot in slots} & set(others)

    @precondition(lambda self: self.pool.rows)
    @rule(data=st.data())
    def fork(self, data):
        pool = self.pool
        seq, new = data.draw(st.sampled_from(list(pool.rows))), data.draw(st.sampled_from(NAMES))
        if new in pool.rows:
            with pytest.raises(ValueError, match="is there already"):
                pool.tables.fork(seq, new)
            return
        before = pool.tables.num_free
        pool.fork(seq, new)
        assert pool.tables.num_free == before

    @precondition(lambda self: self.pool.rows)
    @rule(data=st.data())
    def free(self, data):
        self.pool.free(data.draw(st.sampled_from(list(self.pool.rows))))

    @precondition(lambda self: self.pool.rows)
    @rule(data=st.data())
    def truncate(self, data):
        seq = data.draw(st.sampled_from(list(self.pool.rows)))
        held = len(self.pool.rows[seq])
        length = data.draw(st.integers(-1, held + 1))
        if 0 <= length <= held:
            self.pool.truncate(seq, length)
        else:
            with pytest.raises(ValueError, match=f"not to {length}"):
                self.pool.tables.truncate(seq, length)

    @rule(num_tokens=st.integers(-2, 0), seq=st.sampled_from(NAMES))
    def append_nothing(self, seq, num_tokens):
        assert not self.pool.tables.can_append(seq, num_tokens)
        with pytest.raises(ValueError, match="at least 1"):
            self.pool.tables.append(seq, num_tokens)

    @rule(seq=st.sampled_from(NAMES))
    def unknown(self, seq):
        tables = self.pool.tables
        if seq not in self.pool.rows:
            for call in (tables.table, tables.length, tables.free, lambda seq: tables.fork(seq, "new")):
                with pytest.raises(ValueError, match="not known"):
                    call(seq)

    @invariant()
    def all_is_as_in_plain_lists(self):
        self.pool.check()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None, derandomize=True)


def test_a_pool_of_two_blocks_shows_use_after_free():
    pool = Pool(2, 4)
    pool.append("A", 3)
    pool.fork("A", "B")
    pool.free("A")
    pool.append("C", 4)  # whichever block was free
    pool.check()
    with pytest.raises(ValueError, match="1 blocks asked, 0 of 2 are free"):
        pool.append("D", 1)
    pool.check()


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_who_writes_first_copies_and_the_last_holder_does_not(order):
    pool = Pool(5, 4)
    pool.append("A", 6)
    pool.fork("A", "B")
    old = pool.tables.table("A")[1]
    slots, copies = pool.append(order[0], 1)
    assert copies == [(old, slots[0] // 4)] and slots[0] % 4 == 2 and slots[0] // 4 != old
    assert pool.append(order[1], 1) == ([old * 4 + 2], [])
    pool.check()


def test_forks_of_forks_copy_until_one_holder_is_left():
    pool = Pool(9, 4)
    pool.append("A", 6)
    for seq, new in (("A", "B"), ("B", "C"), ("C", "D")):
        pool.fork(seq, new)
    assert [len(pool.append(seq, 1)[1]) for seq in ("C", "A", "D", "B")] == [1, 1, 1, 0]
    pool.check()
    for seq in ("A", "B", "C", "D"):
        pool.free(seq)
    assert pool.tables.num_free == 9


def test_at_the_edge_of_a_block_nothing_is_copied():
    pool = Pool(3, 4)
    pool.append("A", 4)
    pool.fork("A", "B")
    assert [pool.append(seq, 1)[1] for seq in ("A", "B")] == [[], []]
    pool.check()


def test_a_truncated_fork_copies_before_it_writes():
    pool = Pool(4, 4)
    pool.append("A", 8)
    pool.fork("A", "B")
    pool.truncate("B", 7)  # full for A, and not for B
    assert len(pool.append("B", 1)[1]) == 1
    assert pool.append("A", 1)[1] == []
    pool.check()


def test_a_full_pool_refuses_the_copy_and_both_stay():
    pool = Pool(3, 4)
    pool.append("A", 6)
    pool.fork("A", "B")
    with pytest.raises(ValueError, match="2 blocks asked, 1 of 3 are free"):
        pool.append("B", 4)
    pool.check()
    assert len(pool.append("B", 1)[1]) == 1  # the copy takes the last block
    pool.check()
    assert pool.append("A", 1)[1] == []
    pool.check()


def test_sizes_that_are_none_are_refused():
    for sizes in ((0, 4), (4, 0), (-1, 1)):
        with pytest.raises(ValueError, match="at least 1"):
            SharedTables(*sizes)
