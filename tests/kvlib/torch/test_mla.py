"""Latent attention: both ways against loops, what they make on the way, and Transformers' DeepSeek-V3 as a witness."""

from __future__ import annotations

import math
import os

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from kvlib.latent_cache import LatentAttention  # noqa: E402
from kvlib.mla import absorbed_attend, explicit_attend  # noqa: E402
from kvlib.mla_layer import MLALayer, multiplications  # noqa: E402

CLOSE = {"atol": 1e-12, "rtol": 0}
WAYS = pytest.mark.parametrize("attend", [explicit_attend, absorbed_attend])
B, H, DN, DR, DV, R = 2, 3, 5, 4, 7, 13


@pytest.fixture
def make(draw):
    """Arguments for T new of S tokens."""

    def parts(T, S, B=B, H=H, Dn=DN, Dr=DR, Dv=DV, R=R):
        return draw(B, H, T, Dn), draw(B, H, T, Dr), draw(B, S, R), draw(B, S, Dr), draw(H, Dn, R), draw(H, Dv, R)

    return parts


def loops(q_nope, q_pe, c_kv, k_pe, w_uk, w_uv):
    """Number by number."""
    T, S, width = q_nope.shape[2], c_kv.shape[1], q_nope.shape[3] + q_pe.shape[3]
    out = torch.zeros(*q_nope.shape[:3], w_uv.shape[1], dtype=torch.float64)
    for b in range(len(q_nope)):
        for h in range(q_nope.shape[1]):
            for t in range(T):
                scores = []
                for s in range(S - T + t + 1):
                    content = sum(
                        float(a) * float(b) for a, b in zip(q_nope[b, h, t], w_uk[h] @ c_kv[b, s], strict=True)
                    )
                    position = sum(float(a) * float(b) for a, b in zip(q_pe[b, h, t], k_pe[b, s], strict=True))
                    scores.append((content + position) / math.sqrt(width))
                weights = [math.exp(score - max(scores)) for score in scores]
                for s, weight in enumerate(weights):
                    out[b, h, t] += weight / math.fsum(weights) * (w_uv[h] @ c_kv[b, s])
    return out


@WAYS
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 7), (7, 7), (3, 7)])
def test_against_loops(make, attend, T, S):
    parts = make(T, S)
    torch.testing.assert_close(attend(*parts), loops(*parts), **CLOSE)


@pytest.mark.parametrize("sizes", [{"Dn": 2, "Dr": 6, "Dv": 3, "R": 5}, {"B": 1, "H": 1}, {"R": 2}])
def test_both_ways_agree(make, sizes):
    parts = make(3, 11, **sizes)
    torch.testing.assert_close(absorbed_attend(*parts), explicit_attend(*parts), **CLOSE)


@WAYS
def test_nothing_passed_in_changes(make, attend):
    parts = make(3, 7)
    before = [part.clone() for part in parts]
    attend(*parts)
    assert all(torch.equal(part, kept) for part, kept in zip(parts, before, strict=True))


class Largest(TorchDispatchMode):
    """The most elements that a new tensor has."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        held = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)}
        for made in tree_leaves(out):
            if torch.is_tensor(made) and made.untyped_storage().data_ptr() not in held:
                self.elements = max(self.elements, made.numel())
        return out


def test_absorbed_makes_nothing_for_each_head(make):
    parts = make(1, 101, H=8, Dn=16, Dv=16)
    with Largest() as largest:
        absorbed_attend(*parts)
    assert largest.elements <= B * 101 * (R + DR) < B * 8 * 101 * 16 / 4
    with Largest() as largest:
        explicit_attend(*parts)
    assert largest.elements >= B * 8 * 101 * 16


@pytest.mark.parametrize("S", [1, 64, 257])
def test_multiplications_are_those_that_torch_counts(rng, S):
    from torch.utils.flop_counter import FlopCounterMode

    layer = MLALayer.random(10, H, R, DN, DR, DV, rng)
    x = torch.randn(1, S, 10, generator=rng, dtype=torch.float64)
    parts = *layer.queries(x[:, -1:]), *layer.latent(x), layer.w_uk, layer.w_uv
    counted = multiplications(layer, S)
    for name, attend in (("explicit", explicit_attend), ("absorbed", absorbed_attend)):
        with FlopCounterMode(display=False) as counter:
            attend(*parts)
        assert counter.get_total_flops() == 2 * counted[name]  # a multiplication and an addition
    assert counted["kept"] == S * H * (DN + DR + DV)


def test_weights_that_do_not_fit_together_are_refused(draw):
    w_q, w_down, gain, w_uk, w_uv = draw(H * 9, 10), draw(R + DR, 10), draw(R), draw(H, DN, R), draw(H, DV, R)
    assert MLALayer(w_q, w_down, gain, w_uk, w_uv).rope_dim == DR
    wrong = [(w_q[1:], w_down, gain, w_uk, w_uv), (w_q, w_down[:, 1:], gain, w_uk, w_uv)]
    wrong += [(w_q, w_down, gain[1:], w_uk, w_uv), (w_q, w_down, gain, w_uk, w_uv[1:])]
    for parts in wrong:
        with pytest.raises(ValueError, match="do not fit together"):
            MLALayer(*parts)


# The witness. It turns pairs of neighbours, unless told otherwise; its norm, and its plain softmax, are float32 inside.


@pytest.fixture
def theirs():
    """Transformers' attention of DeepSeek-V3, in float64, with noise for weights."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as module

    config = transformers.DeepseekV3Config(
        hidden_size=10, num_attention_heads=H, num_key_value_heads=H, q_lora_rank=None, kv_lora_rank=R,
        qk_nope_head_dim=DN, qk_rope_head_dim=DR, v_head_dim=DV, rope_interleave=False,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0}, attn_implementation="sdpa",
        max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(8)
    attention = module.DeepseekV3Attention(config, 0).double().eval()
    with torch.no_grad():
        attention.kv_a_layernorm.weight.uniform_(0.5, 1.5)
    attention.before_o = []
    attention.o_proj.register_forward_pre_hook(lambda module, args: attention.before_o.append(args[0]))
    return attention


def ours(attention) -> MLALayer:
    """The same layer in kvlib."""
    both = attention.kv_b_proj.weight.detach().view(H, DN + DV, R)
    norm = attention.kv_a_layernorm
    w_q, w_down = attention.q_proj.weight.detach(), attention.kv_a_proj_with_mqa.weight.detach()
    return MLALayer(w_q, w_down, norm.weight.detach(), both[:, :DN], both[:, DN:], 500.0, norm.variance_epsilon)


def outputs_of(attention, x, T):
    """Its own outputs before o_proj, (B, H, T, Dv), with its own rotation and mask."""
    S = x.shape[1]
    steps = 500.0 ** (-torch.arange(0, DR, 2, dtype=torch.float64) / DR)
    angles = (torch.arange(S)[:, None] * steps).repeat(1, 2)[None]  # (1, S, Dr)
    mask = torch.full((S, S), float("-inf"), dtype=torch.float64).triu(1)[None, None]
    with torch.no_grad():
        attention(x, (angles.cos(), angles.sin()), mask)
    return attention.before_o.pop().view(len(x), S, H, DV).transpose(1, 2)[:, :, -T:]


@pytest.mark.parametrize("widths", [[7], [1] * 7, [3, 2, 2]], ids=str)
def test_the_absorbed_cache_equals_transformers(theirs, draw, widths):
    """Before o_proj, in any chunks; its norm is float32 inside, ours is not."""
    x = draw(2, 7, 10)
    layer = ours(theirs)
    cache = LatentAttention(layer, 9)
    start = 0
    for chunk in x.split(widths, dim=1):
        start += chunk.shape[1]
        want = outputs_of(theirs, x[:, :start], chunk.shape[1])
        torch.testing.assert_close(cache.forward(chunk), want, atol=1e-6, rtol=0)


@WAYS
def test_absorbed_and_explicit_equal_transformers_to_rounding(theirs, draw, attend):
    """Given its own latents, nothing but attention is left to differ."""
    x, T = draw(2, 7, 10), 3
    layer = ours(theirs)
    rows = theirs.kv_a_proj_with_mqa(x).detach()
    c_kv = theirs.kv_a_layernorm(rows[..., :R]).detach()
    k_pe = layer.rotate(rows[..., R:], torch.arange(7))
    q_nope, q_pe = layer.queries(x[:, -T:])
    got = attend(q_nope, layer.rotate(q_pe, torch.arange(4, 7)), c_kv, k_pe, layer.w_uk, layer.w_uv)
    torch.testing.assert_close(got, outputs_of(theirs, x, T), atol=1e-14, rtol=1e-12)
