"""Who may see whom, by hand; and what PyTorch's own causal flag makes of a rectangle."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from kvlib.masks import visible  # noqa: E402
from kvlib.recompute_gqa import recompute_gqa  # noqa: E402


def chunk(held: int, new: int, **options: int) -> torch.Tensor:
    """The mask of `new` tokens after `held` ones."""
    return visible(torch.arange(held, held + new), torch.arange(held + new), **options)


def test_three_held_and_a_chunk_of_two(facts):
    g1 = facts["G1"]
    mask = chunk(g1["held"], g1["new"])
    assert mask.dtype == torch.bool
    assert mask.int().tolist() == g1["rows"]


def test_the_rows_are_not_the_top_left_of_a_triangle(facts):
    triangle = torch.ones(5, 5).tril().int()
    assert triangle[:2].tolist() != facts["G1"]["rows"]
    assert triangle[-2:].tolist() == facts["G1"]["rows"]


@pytest.mark.parametrize("held", [0, 1, 5])
@pytest.mark.parametrize("new", [1, 2, 7])
def test_each_query_sees_one_key_more_than_the_one_before(held, new):
    rows = chunk(held, new).tolist()
    assert rows == [[True] * (held + t + 1) + [False] * (new - t - 1) for t in range(new)]


def test_only_positions_count_and_not_the_order_of_the_keys():
    held = torch.tensor([4, -1, 2, 3, -1])
    assert visible(torch.tensor([3, 0, 4]), held).int().tolist() == [[0, 0, 1, 1, 0], [0] * 5, [1, 0, 1, 1, 0]]


def test_where_there_is_no_token_nobody_sees_and_nobody_is_seen():
    assert not visible(torch.tensor([-1]), torch.tensor([-1, 0, 1])).any()
    assert not visible(torch.tensor([-1, 0, 7]), torch.tensor([-1])).any()
    assert not visible(torch.tensor([-1, 0, 1]), torch.tensor([-1]), window=3).any()


def test_each_sequence_of_a_batch_by_its_own_positions():
    q, k = torch.tensor([[2, 3], [0, 1]]), torch.tensor([[0, 1, 2, 3], [0, 1, -1, -1]])
    mask = visible(q, k)
    assert mask.shape == (2, 2, 4)
    for b in range(2):
        assert torch.equal(mask[b], visible(q[b], k[b]))


def test_a_window_has_its_own_token_in_it():
    assert chunk(3, 2, window=2).int().tolist() == [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    assert torch.equal(chunk(0, 4, window=1), torch.eye(4, dtype=torch.bool))
    assert torch.equal(chunk(3, 4, window=7), chunk(3, 4))


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_refused(window):
    with pytest.raises(ValueError, match=f"window must be at least 1 token, got {window}"):
        chunk(3, 2, window=window)


@pytest.mark.parametrize(("new", "held", "right"), [(5, 0, True), (2, 3, False), (1, 4, False), (4, 1, False)])
def test_the_causal_flag_is_right_for_a_square_only(draw, new, held, right):
    """It counts from the top left: the first new query sees one key, however many are held."""
    q, k, v = draw(2, 3, new, 4), draw(2, 3, held + new, 4), draw(2, 3, held + new, 4)
    want = torch.from_numpy(recompute_gqa(q, k, v, chunk(held, new)))
    flagged = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    masked = F.scaled_dot_product_attention(q, k, v, attn_mask=chunk(held, new))
    torch.testing.assert_close(masked, want, atol=1e-12, rtol=0)
    assert torch.allclose(flagged, want, atol=1e-12, rtol=0) == right
    top_left = torch.from_numpy(recompute_gqa(q, k, v, torch.ones(new, held + new).tril()))
    torch.testing.assert_close(flagged, top_left, atol=1e-12, rtol=0)


def test_with_one_query_the_causal_flag_returns_the_first_value(draw):
    q, k, v = draw(1, 2, 1, 4), draw(1, 2, 6, 4), draw(1, 2, 6, 4)
    flagged = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(flagged, v[:, :, :1], atol=1e-15, rtol=0)
