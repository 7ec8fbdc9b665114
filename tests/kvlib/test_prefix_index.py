"""Prefixes that are found again: against a model in which a block's content follows from everything before its end."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvlib.prefix_index import PrefixIndex

ME = ("llama", "plain", "acme")


def run(index: PrefixIndex, request: str, tokens: list[int], identity: tuple[str, str, str] = ME) -> int:
    cached = index.admit(request, tokens, identity)
    index.computed(request)
    return cached


# ---- any order -------------------------------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """A pool of contents beside the index. A content is (identity, all tokens up to the block's end)."""

    num_blocks, block_size = 7, 2

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(self.num_blocks, self.block_size)
        self.rows: list[object] = [None] * self.num_blocks
        self.found: set[int] = set()  # blocks with computed full rows, not given out since
        self.live: dict[int, dict] = {}
        self.admitted = 0

    def content(self, request: dict, i: int) -> object:
        return request["identity"], tuple(request["tokens"][: (i + 1) * self.block_size])

    def held(self) -> set[int]:
        return {block for request in self.live.values() for block in request["table"]}

    @rule(
        tokens=st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=9),
        identity=st.sampled_from([ME, ME, ("llama", "plain", "zeta")]),
    )
    def admit(self, tokens: list[int], identity: tuple[str, str, str]) -> None:
        request = {"tokens": tokens, "identity": identity, "computed": False, "cached": 0}
        contents = {self.rows[block] for block in self.found}
        while (request["cached"] + 1) * self.block_size < len(tokens):
            if self.content(request, request["cached"]) not in contents:
                break
            request["cached"] += 1
        wanted = [self.content(request, i) for i in range(request["cached"])]
        in_use = {self.rows[block] for block in self.held() & self.found}
        total = -(-len(tokens) // self.block_size)
        fits = total - sum(content in in_use for content in wanted) <= self.num_blocks - len(self.held())
        name, before = self.admitted, self.index.num_free
        self.admitted += 1
        assert self.index.can_admit(tokens, identity) == fits
        if not fits:
            with pytest.raises(ValueError, match="more blocks"):
                self.index.admit(name, tokens, identity)
            assert self.index.num_free == before
            return
        assert self.index.admit(name, tokens, identity) == request["cached"] * self.block_size
        request["table"] = table = self.index.table(name)
        assert len(table) == len(set(table)) == total
        assert [self.rows[block] for block in table[: request["cached"]]] == wanted
        new = table[request["cached"] :]
        assert not self.held() & set(new)
        for block in new:
            self.rows[block] = "not written"
        self.found -= set(new)
        self.live[name] = request

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def computed(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        request = self.live[name]
        for i in range(request["cached"], len(request["table"])):
            self.rows[request["table"][i]] = self.content(request, i)
        self.index.computed(name)
        request["computed"] = True
        self.found |= set(request["table"][: len(request["tokens"]) // self.block_size])

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        self.index.release(name)
        del self.live[name]

    @invariant()
    def everybody_has_its_rows(self) -> None:
        assert self.index.num_free == self.num_blocks - len(self.held())
        for name, request in self.live.items():
            assert self.index.table(name) == request["table"]
            done = len(request["table"]) if request["computed"] else request["cached"]
            for i in range(done):
                assert self.rows[request["table"][i]] == self.content(request, i)


AnyOrder.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
TestAnyOrder = AnyOrder.TestCase


# ---- what must be told apart -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ([1, 23, 5, 7], [12, 3, 5, 7]),
        ([5, 5, 6, 7], [5, 6, 6, 7]),
        ([5, 6, 7, 8], [8, 7, 6, 5]),
        ([0, -1, 2, 3], [0, -2, 2, 3]),
        ([9, 1, 2, 3], [9 + 2**16, 1, 2, 3]),
        ([2**61 - 1, 1, 2, 3], [0, 1, 2, 3]),  # Python's hash of both is 0
    ],
)
def test_other_tokens_are_not_found(known, asked):
    index = PrefixIndex(num_blocks=11, block_size=4)
    start = [4, 4, 4, 4]
    run(index, "a", [*start, *known, 1])
    assert index.admit("b", [*start, *asked, 1], ME) == 4
    assert index.admit("c", [*start, *known, 1], ME) == 8


def test_the_same_block_after_another_beginning_is_not_found():
    index = PrefixIndex(num_blocks=17, block_size=2)
    run(index, "a", [1, 2, 3, 4, 5])
    run(index, "b", [6, 7, 8, 9, 5])
    assert index.admit("c", [6, 7, 3, 4, 5], ME) == 2
    assert index.admit("d", [3, 4, 5], ME) == 0
    run(index, "e", [1, 1, 1, 1, 1, 1, 2])
    assert index.admit("f", [1] * 9, ME) == 6
    assert len(set(index.table("f"))) == 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ME, ("qwen", "plain", "acme")),
        (ME, ("llama", "legal", "acme")),
        (ME, ("llama", "plain", "zeta")),
        (("ab", "c", ""), ("a", "bc", "")),
        (("x", "", ""), ("", "x", "")),
        (("a', 'b", "c", ""), ("a", "b', 'c", "")),
        (("a\0b", "c", ""), ("a", "b\0c", "")),
    ],
)
def test_another_identity_finds_nothing(one, other):
    index = PrefixIndex(num_blocks=11, block_size=4)
    tokens = list(range(9))
    run(index, "a", tokens, one)
    assert index.admit("b", tokens, other) == 0
    assert index.admit("c", tokens, one) == 8


def test_numbers_of_other_types_are_the_same_tokens():
    numpy = pytest.importorskip("numpy")
    index = PrefixIndex(num_blocks=11, block_size=4)
    run(index, "a", [1, 0, 3, 4, 5])
    assert index.admit("b", numpy.array([1, 0, 3, 4, 5]), list(map(numpy.str_, ME))) == 4
    assert index.admit("c", [True, False, 3, 4, 5], list(ME)) == 4
    with pytest.raises(TypeError):
        index.admit("d", [1.5, 0, 3, 4, 5], ME)


# ---- what is found ---------------------------------------------------------------------------------------------------


def test_at_least_one_token_is_computed():
    index = PrefixIndex(num_blocks=29, block_size=4)
    run(index, "a", list(range(12)))
    expected = [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]
    for num_tokens, cached in enumerate(expected, start=1):
        assert index.admit(num_tokens, list(range(num_tokens)), ME) == cached
        index.release(num_tokens)
    assert index.admit("b", list(range(13)), ME) == 12


def test_only_what_is_computed_is_found():
    index = PrefixIndex(num_blocks=23, block_size=4)
    tokens = list(range(9))
    index.admit("a", tokens, ME)
    assert index.admit("b", tokens, ME) == 0
    index.release("a")
    assert index.admit("c", tokens, ME) == 0  # released before computed: never found
    index.computed("b")
    assert index.admit("d", tokens, ME) == 8
    assert index.admit("e", [*tokens, 9, 10, 11, 12], ME) == 8  # b's third block is not full


def test_least_recently_released_goes_first_and_from_its_end():
    index = PrefixIndex(num_blocks=6, block_size=2)
    run(index, "a", [1, 2, 3, 4])
    run(index, "b", [5, 6, 7, 8])
    run(index, "c", [9, 9, 9, 9])
    first, second = index.table("b"), index.table("a")
    for request in "bac":
        index.release(request)
    index.admit("x", [0] * 5, ME)
    assert index.table("x") == [first[1], first[0], second[1]]
    assert index.admit("d", [1, 2, 3, 4, 5], ME) == 2  # the beginning of a is still there
    assert index.table("d")[0] == second[0]


def test_a_copy_that_is_held_is_found_before_one_that_is_free():
    index = PrefixIndex(num_blocks=5, block_size=2)
    for request in "ab":
        index.admit(request, [1, 2, 3], ME)
    for request in "ab":
        index.computed(request)
    index.release("a")
    assert index.admit("c", [1, 2, 3, 4, 5, 6, 7], ME) == 2  # three new blocks: a's copy must be one of them
    assert index.table("c")[0] == index.table("b")[0]
    assert index.num_free == 0


def test_what_was_found_stays_found_after_an_early_end():
    index = PrefixIndex(num_blocks=7, block_size=2)
    run(index, "a", [1, 2, 3])
    index.admit("b", [1, 2, 4, 5, 6], ME)
    index.release("a")
    index.release("b")  # never computed
    assert index.admit("c", [1, 2, 4, 5, 6], ME) == 2


# ---- refusals --------------------------------------------------------------------------------------------------------


def snapshot(index: PrefixIndex) -> str:
    return repr(vars(index))


def test_refusals_change_nothing():
    index = PrefixIndex(num_blocks=5, block_size=4)
    run(index, "a", list(range(9)))
    before = snapshot(index)
    for call, words in (
        (lambda: index.admit("a", [1], ME), "'a' is known"),
        (lambda: index.admit("b", [], ME), "at least 1 token"),
        (lambda: index.admit("b", list(range(50, 60)), ME), "3 more blocks, 2 free"),
        (lambda: index.admit("b", list(range(20)), ME), "3 more blocks, 2 free"),
        (lambda: index.admit("b", [1], ("llama", "plain")), "three texts"),
        (lambda: index.admit("b", [1], ("llama", "plain", 3)), "three texts"),
        (lambda: index.admit("b", [1], "abc"), "three texts"),
        (lambda: index.table("b"), "'b' is unknown"),
        (lambda: index.computed("b"), "'b' is unknown"),
        (lambda: index.release("b"), "'b' is unknown"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
        assert snapshot(index) == before
    index.release("a")
    with pytest.raises(ValueError, match="'a' is unknown"):
        index.release("a")
    assert index.admit("a", list(range(9)), ME) == 8


def test_own_hits_among_the_free_ones_are_no_room():
    index = PrefixIndex(num_blocks=5, block_size=4)
    index.admit("x", [7] * 8, ME)
    run(index, "a", list(range(9)))
    index.release("a")
    with pytest.raises(ValueError, match="2 more blocks, 1 free"):
        index.admit("b", list(range(16)), ME)
    assert index.admit("b", list(range(12)), ME) == 8
    assert index.num_free == 0


@pytest.mark.parametrize(("num_blocks", "block_size"), [(0, 4), (4, 0), (-1, 4)])
def test_sizes_below_one_are_refused(num_blocks, block_size):
    with pytest.raises(ValueError, match="at least 1"):
        PrefixIndex(num_blocks, block_size)


def test_a_table_is_the_callers_own():
    index = PrefixIndex(num_blocks=5, block_size=4)
    index.admit("a", list(range(9)), ME)
    index.table("a").clear()
    assert len(index.table("a")) == 3


def test_a_conversation_computes_each_turn_once():
    index, history, computed = PrefixIndex(num_blocks=40, block_size=4), [], []
    for turn in range(5):
        history = [*history, *range(100 * turn, 100 * turn + 8)]
        computed.append(len(history) - run(index, f"turn {turn}", history))
        index.release(f"turn {turn}")
    assert computed == [8] * 5
    assert index.num_free == 40
