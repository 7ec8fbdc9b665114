"""The latent cache: any chunks give the whole, what it holds, and what it refuses."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvlib.latent_cache import LatentAttention  # noqa: E402
from kvlib.mla import explicit_attend  # noqa: E402
from kvlib.mla_layer import MLALayer  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}
H, R, DN, DR, DV = 3, 13, 5, 4, 7


@pytest.fixture
def layer(rng):
    return MLALayer.random(10, H, R, DN, DR, DV, rng, base=50.0)


def whole(layer, x):
    """All outputs at once, by the explicit way."""
    positions = torch.arange(x.shape[1])
    (q_nope, q_pe), (c_kv, k_pe) = layer.queries(x), layer.latent(x)
    q_pe, k_pe = layer.rotate(q_pe, positions), layer.rotate(k_pe, positions)
    return explicit_attend(q_nope, q_pe, c_kv, k_pe, layer.w_uk, layer.w_uv)


@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 2, 2], [1, 5, 1]], ids=str)
@pytest.mark.parametrize("max_len", [7, 11])
def test_any_chunks(layer, draw, widths, max_len):
    x = draw(2, 7, 10)
    cache = LatentAttention(layer, max_len)
    assert len(cache) == 0 and cache.nbytes == 0
    got = torch.cat([cache.forward(chunk) for chunk in x.split(widths, dim=1)], dim=2)
    torch.testing.assert_close(got, whole(layer, x), **CLOSE)
    assert len(cache) == 7
    assert cache.nbytes == cache.buffer.untyped_storage().nbytes() == 2 * max_len * (R + DR) * 8


def test_what_is_held_is_the_latent_and_the_turned_key(layer, draw):
    x = draw(2, 5, 10)
    cache = LatentAttention(layer, 7)
    for chunk in x.split([2, 3], dim=1):
        cache.forward(chunk)
    c_kv, k_pe = layer.latent(x)
    torch.testing.assert_close(cache.buffer[:, :5, :R], c_kv, **CLOSE)
    torch.testing.assert_close(cache.buffer[:, :5, R:], layer.rotate(k_pe, torch.arange(5)), **CLOSE)


def test_what_does_not_fit_is_refused_and_nothing_changes(layer, draw):
    cache, x = LatentAttention(layer, 5), draw(2, 5, 10)
    with pytest.raises(ValueError, match="holds 0 of 5 tokens, 6 more asked"):
        cache.forward(draw(3, 6, 10))
    cache.forward(x[:, :3])
    for bad, said in (
        (draw(2, 3, 10), "holds 3 of 5 tokens, 3 more asked"),
        (draw(1, 1, 10), "holds 2 sequences, got 1"),
        (draw(3, 1, 10), "holds 2 sequences, got 3"),
    ):
        with pytest.raises(ValueError, match=said):
            cache.forward(bad)
    with pytest.raises(RuntimeError):
        cache.forward(draw(2, 1, 11))  # the layer itself refuses
    assert len(cache) == 3
    torch.testing.assert_close(cache.forward(x[:, 3:]), whole(layer, x)[:, :, 3:], **CLOSE)
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        LatentAttention(layer, 0)


def test_what_a_layer_refuses_first_leaves_no_memory(layer, draw):
    cache = LatentAttention(layer, 5)
    with pytest.raises(RuntimeError):
        cache.forward(draw(3, 1, 11))
    assert cache.nbytes == len(cache) == 0
    assert cache.forward(draw(2, 1, 10)).shape == (2, H, 1, DV)


def test_a_cut_text_goes_on_from_there(layer, draw):
    x, other = draw(2, 6, 10), draw(2, 3, 10)
    cache = LatentAttention(layer, 6)
    cache.forward(x)
    cache.truncate(6)
    cache.truncate(3)
    assert len(cache) == 3
    text = torch.cat((x[:, :3], other), dim=1)
    torch.testing.assert_close(cache.forward(other), whole(layer, text)[:, :, 3:], **CLOSE)
    for length in (-1, 7):
        with pytest.raises(ValueError, match=f"holds 6 tokens, cannot be cut to {length}"):
            cache.truncate(length)
    assert len(cache) == 6
    cache.truncate(0)
    torch.testing.assert_close(cache.forward(other), whole(layer, other), **CLOSE)


def test_no_gradient_is_kept_in_the_buffer(layer, draw):
    layer.w_down.requires_grad_()
    cache = LatentAttention(layer, 5)
    cache.forward(draw(2, 2, 10))
    assert not cache.buffer.requires_grad
