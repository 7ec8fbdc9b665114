"""Many adapters, one server: logits as if everything were computed anew, and nothing computed twice."""

from __future__ import annotations

import random

import pytest

from kvlib.adapter_cache import AdapterCache


class Server:
    """KVs are the tokens with the weights that computed them; logits are the KV and the weights that were asked."""

    def __init__(self) -> None:
        self.weights = {"": 0, "poet": 0, "judge": 0}
        self.kvs: list[tuple] = []
        self.computed: list[int] = []

    def version(self, adapter: str) -> str:
        return f"v{self.weights[adapter]}"

    def compute(self, adapter: str, tokens: list[int], after: int | None) -> int:
        assert tokens
        before = () if after is None else self.kvs[after]
        self.kvs.append((*before, *((adapter, self.weights[adapter], token) for token in tokens)))
        self.computed.append(len(tokens))
        return len(self.kvs) - 1

    def logits(self, adapter: str, kv: int) -> tuple:
        return adapter, self.weights[adapter], self.kvs[kv]

    def right(self, adapter: str, tokens: list[int]) -> tuple:
        version = self.weights[adapter]
        return adapter, version, tuple((adapter, version, token) for token in tokens)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def cache(server) -> AdapterCache:
    return AdapterCache(server)


def test_a_longer_prompt_goes_on_from_the_longest_shorter_one(cache, server):
    for tokens in ([1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7], [1, 2, 9], [8]):
        assert cache.answer("", tokens) == server.right("", tokens)
    assert server.computed == [2, 2, 3, 1, 1]


def test_a_known_prompt_needs_nothing(cache, server):
    for _ in range(3):
        assert cache.answer("poet", [0, 0]) == server.right("poet", [0, 0])
    assert server.computed == [2]


def test_adapters_do_not_share(cache, server):
    for adapter in ("", "poet", "judge", ""):
        assert cache.answer(adapter, [1, 2, 3]) == server.right(adapter, [1, 2, 3])
    assert server.computed == [3, 3, 3]


def test_an_upload_begins_anew_for_that_adapter_only(cache, server):
    for adapter in ("poet", "judge"):
        cache.answer(adapter, [1, 2])
    server.weights["poet"] += 1
    for adapter in ("poet", "judge"):
        assert cache.answer(adapter, [1, 2, 3]) == server.right(adapter, [1, 2, 3])
    assert server.computed == [2, 2, 3, 1]


def test_many_prompts_of_many_adapters_against_a_plain_list(cache, server):
    draw, seen = random.Random(20), []
    for _ in range(400):
        adapter = draw.choice(["", "poet", "judge"])
        if draw.random() < 0.03:
            server.weights[adapter] += 1
        tokens = [draw.choice([0, 1, 12]) for _ in range(draw.randint(1, 6))]
        whose = adapter, server.weights[adapter]
        known = max([len(t) for w, t in seen if w == whose and t == tokens[: len(t)]], default=0)
        calls = len(server.computed)
        assert cache.answer(adapter, tokens) == server.right(adapter, tokens)
        assert server.computed[calls:] == [len(tokens) - known] * (known < len(tokens))
        seen.append((whose, tokens))


def test_no_token_is_refused(cache, server):
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        cache.answer("", [])
    assert server.computed == []


def test_the_callers_list_may_change(cache, server):
    tokens = [1, 2]
    cache.answer("", tokens)
    tokens.append(3)
    assert cache.answer("", [1, 2]) == server.right("", [1, 2])
    assert server.computed == [2]
