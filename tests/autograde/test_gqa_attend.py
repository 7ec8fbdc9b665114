"""Exercise 4.2: what its checks say of copies, and of heads that read the wrong keys."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from autograde.exercises.gqa_attend import EXERCISE  # noqa: E402
from autograde.exercises.gqa_attend.candidates import by_heads, right  # noqa: E402
from autograde.judge import Verdict, judge_here  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention


def by_index(q, k, v, mask):
    owners = torch.arange(q.shape[1]) // (q.shape[1] // k.shape[1])
    return attend(q, k[:, owners], v[:, owners], attn_mask=mask)


def by_stack(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    k, v = (torch.stack([x[:, h // G] for h in range(q.shape[1])], dim=1) for x in (k, v))
    return attend(q, k, v, attn_mask=mask)


def by_repeat(q, k, v, mask):
    G = q.shape[1] // k.shape[1]
    k, v = (x[:, :, None].repeat(1, 1, G, 1, 1).flatten(1, 2) for x in (k, v))
    return attend(q, k, v, attn_mask=mask)


def by_repeat_and_hand(q, k, v, mask):
    """The same copy, and every later step written out."""
    G = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(G, 1), v.repeat_interleave(G, 1)
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def in_float32(q, k, v, mask):
    return by_index(q.float(), k.float(), v.float(), mask)


def values_only(q, k, v, mask):
    """The keys are not copied, the values are."""
    G = q.shape[1] // k.shape[1]
    scores = torch.stack([q[:, h] @ k[:, h // G].mT for h in range(q.shape[1])], dim=1) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v.repeat_interleave(G, 1)


def failed(verdict: Verdict) -> list[str]:
    return [outcome.stage.name for outcome in verdict.outcomes if not outcome.held]


@pytest.mark.parametrize("work", [by_index, by_stack, by_repeat, by_repeat_and_hand, values_only])
def test_every_way_to_copy_loses_that_stage_only_and_is_named(work) -> None:
    verdict = judge_here(EXERCISE, work)
    assert failed(verdict) == ["no copy"]
    assert [mistake.name for mistake in verdict.diagnosis.mistakes] == ["repeat-interleave"]


def test_a_copy_in_float32_counts_too() -> None:
    assert failed(judge_here(EXERCISE, in_float32)) == ["no copy"]


def test_keys_laid_side_by_side_once_are_no_copy_for_every_head() -> None:
    def one_buffer(q, k, v, mask):
        both = torch.cat([k, v], dim=-1).clone()  # twice K, whatever G is
        return right(q, both[..., : q.shape[-1]], both[..., q.shape[-1] :], mask)

    assert judge_here(EXERCISE, one_buffer).passed


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        (lambda h, k: h % k, "[0, 1, 0, 1, 0, 1]"),
        (lambda h, k: min(h, k - 1), "[0, 1, 1, 1, 1, 1]"),
        (lambda h, k: k - 1, "[1, 1, 1, 1, 1, 1]"),
    ],
)
def test_the_message_shows_which_kv_heads_were_read(owner, shown: str) -> None:
    def work(q, k, v, mask):
        groups = k.shape[1] < q.shape[1]  # else every head reads its own
        return by_heads(q, k, v, mask, (lambda h: owner(h, k.shape[1])) if groups else None)

    finding = judge_here(EXERCISE, work).failure.finding
    assert finding.expected == "KV heads [0, 0, 0, 1, 1, 1]"
    assert finding.got == f"KV heads {shown}"


def test_the_message_says_which_query_was_wrong() -> None:
    def work(q, k, v, mask):
        out = right(q, k, v, mask)
        if not mask.all() and k.shape[1] == 2:
            out[1, 4, -1] += 1.0
        return out

    finding = judge_here(EXERCISE, work).failure.finding
    assert finding.where == "H=6, Hkv=2, T=3, S=11: sequence 1, head 4, query 2"


def test_calls_before_one_that_raises_are_judged_first() -> None:
    def work(q, k, v, mask):
        if q.shape[1] == 5:
            raise RuntimeError("five heads")
        return right(q, k, v, mask) * 2

    finding = judge_here(EXERCISE, work).failure.finding
    assert finding.key == "3 heads, 2 of 11"
    assert judge_here(EXERCISE, lambda *args: 1 / 0).failure.finding.key == "raised"
