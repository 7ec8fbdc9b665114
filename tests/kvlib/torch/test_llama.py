"""An independent witness: Transformers' Llama with our weights must give our logits.

Its RMSNorm and its rotary angles are in float32 whatever the model is, which would hide everything below 1e-7. For the
comparison to rounding those two are replaced by the same formulas in float64; the rest of it stays as it comes.
"""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

from kvlib.generate import forward, greedy  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402
from kvlib.transformer import Transformer  # noqa: E402

WIDTHS = [[9], [1] * 9, [4, 1, 1, 3], [4, 5]]
NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj"}
NAMES |= {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
NAMES |= {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
OUTER = {"embedding": "model.embed_tokens", "final_norm": "model.norm", "unembedding": "lm_head"}


def theirs(name: str) -> str:
    """The name in a Llama checkpoint of one of our weights."""
    if name in OUTER:
        return f"{OUTER[name]}.weight"
    layer, part = name.split(".")
    return f"model.layers.{layer}.{NAMES[part]}.weight"


def as_llama(model: Transformer) -> transformers.LlamaForCausalLM:
    """The same model in Transformers."""
    c = model.config
    config = transformers.LlamaConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.width,
        intermediate_size=c.hidden,
        num_hidden_layers=c.num_layers,
        num_attention_heads=c.num_heads,
        num_key_value_heads=c.num_kv_heads,
        head_dim=c.head_dim,
        rms_norm_eps=c.eps,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
        tie_word_embeddings=c.tied,
        eos_token_id=None,  # no token of ours ends anything
        attn_implementation="sdpa",
    )
    llama = transformers.LlamaForCausalLM(config).double().eval()
    weights = {theirs(name): weight for name, weight in model.weights.items()}
    missing, unexpected = llama.load_state_dict(weights, strict=False)
    assert not unexpected
    assert missing == (["lm_head.weight"] if c.tied else [])
    return llama


class Norm64(torch.nn.Module):
    def __init__(self, norm: torch.nn.Module) -> None:
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x):
        return self.weight * (x / ((x * x).mean(dim=-1, keepdim=True) + self.eps).sqrt())


class Rotary64(torch.nn.Module):
    def __init__(self, base: float, head_dim: int) -> None:
        super().__init__()
        self.steps = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)

    def forward(self, x, position_ids):
        angles = (position_ids[..., None] * self.steps).repeat(1, 1, 2)  # (B, T, D): each pair's angle twice
        return angles.cos(), angles.sin()


def in_float64(llama: transformers.LlamaForCausalLM) -> transformers.LlamaForCausalLM:
    for layer in llama.model.layers:
        layer.input_layernorm = Norm64(layer.input_layernorm)
        layer.post_attention_layernorm = Norm64(layer.post_attention_layernorm)
    llama.model.norm = Norm64(llama.model.norm)
    llama.model.rotary_emb = Rotary64(llama.config.rope_parameters["rope_theta"], llama.config.head_dim)
    return llama


@pytest.fixture(params=[(6, 2, False), (6, 2, True), (4, 4, False), (4, 1, False)], ids=str)
def pair(request, make_model, make_tokens):
    """Our model, theirs, and tokens. The width, 12, is one that both head counts divide: they insist on it."""
    H, Hkv, tied = request.param
    model = make_model(3, H, Hkv, tied, width=12)
    return model, as_llama(model), make_tokens(2, 9)


@torch.no_grad()
def test_the_whole_sequence(pair):
    model, llama, tokens = pair
    got = model.logits(tokens)
    torch.testing.assert_close(got, llama(tokens).logits, atol=1e-5, rtol=0)  # as it comes
    torch.testing.assert_close(got, in_float64(llama)(tokens).logits, atol=1e-12, rtol=0)


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@torch.no_grad()
def test_any_chunks_through_both_caches(pair, widths):
    model, llama, tokens = pair
    llama = in_float64(llama)
    whole = llama(tokens).logits
    ours = GQACache(3, 2, model.config.num_kv_heads, 9, 8, torch.float64)
    dynamic = transformers.DynamicCache()
    static = transformers.StaticCache(config=llama.config, max_cache_len=12)
    start = 0
    for chunk in tokens.split(widths, dim=1):
        end = start + chunk.shape[1]
        got = forward(model, ours, chunk)
        for cache in (dynamic, static):
            torch.testing.assert_close(got, llama(chunk, cache=cache).logits, atol=1e-12, rtol=0)
        torch.testing.assert_close(got, whole[:, start:end], atol=1e-12, rtol=0)
        start = end
    for layer in range(3):  # and both hold the same keys and values
        K, V = (rows[:, :, :9] for rows in ours.layers[layer])
        torch.testing.assert_close(K, dynamic.layers[layer].keys, atol=1e-12, rtol=0)
        torch.testing.assert_close(V, dynamic.layers[layer].values, atol=1e-12, rtol=0)


@torch.no_grad()
def test_the_same_tokens_are_generated(pair):
    model, llama, tokens = pair
    config = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, pad_token_id=0)
    want = in_float64(llama).generate(tokens, generation_config=config, attention_mask=torch.ones_like(tokens))
    ours = greedy(model, tokens, 12, GQACache(3, 2, model.config.num_kv_heads, 20, 8, torch.float64))
    assert torch.equal(ours.tokens, want[:, 9:])
