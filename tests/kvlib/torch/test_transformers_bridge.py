"""A model of Transformers with our layers does what it does with its own: logits, generation, beams, crops."""

from __future__ import annotations

import os
import sys

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from kvlib import transformers_bridge  # noqa: E402
from kvlib.cache_layer import CacheLayer  # noqa: E402
from kvlib.transformers_bridge import (  # noqa: E402
    NoTransformers,
    as_transformers_cache,
    random_llama,
    transformers_version,
)

L = 3


def test_a_missing_library_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(NoTransformers, match="pip install transformers=="):
        as_transformers_cache([CacheLayer(4)])
    with pytest.raises(NoTransformers, match="pip install transformers=="):
        random_llama()
    monkeypatch.setattr(transformers_bridge, "version", _missing)
    assert transformers_version() is None


def _missing(name):
    raise transformers_bridge.PackageNotFoundError(name)


def test_no_layers_are_refused():
    with pytest.raises(ValueError, match="got none"):
        as_transformers_cache([])


@pytest.fixture(scope="module")
def llama():
    """A random Llama in float64 whose sizes are pairwise distinct."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=29,
        hidden_size=12,
        intermediate_size=17,
        num_hidden_layers=L,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        initializer_range=0.5,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return transformers.LlamaForCausalLM(config).double().eval()


@pytest.fixture
def tokens():
    return torch.randint(29, (2, 9), generator=torch.Generator().manual_seed(1))


def ours(max_len=40, num_layers=L):
    layers = [CacheLayer(max_len) for _ in range(num_layers)]
    return as_transformers_cache(layers), layers


def close(got, want):
    torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


@pytest.mark.parametrize("widths", [[9], [1] * 9, [3, 2, 4], [4, 1, 1, 3]], ids=str)
@torch.no_grad()
def test_any_chunks(llama, tokens, widths):
    cache, layers = ours()
    got = torch.cat([llama(chunk, cache=cache).logits for chunk in tokens.split(widths, dim=1)], dim=1)
    close(got, llama(tokens, use_cache=False).logits)
    assert {layer.get_seq_length() for layer in layers} == {9}


@torch.no_grad()
def test_the_older_name_of_the_argument(llama, tokens):
    cache, _ = ours()
    with pytest.warns(FutureWarning, match="past_key_values"):
        llama(tokens[:, :5], past_key_values=cache)
    close(llama(tokens[:, 5:], cache=cache).logits, llama(tokens, use_cache=False).logits[:, 5:])


def generate(llama, tokens, **kwargs):
    import transformers

    beams = kwargs.pop("num_beams", 1)
    new = kwargs.pop("new", 12)
    config = transformers.GenerationConfig(
        max_new_tokens=new,
        do_sample=False,
        num_beams=beams,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    out = llama.generate(tokens, generation_config=config, attention_mask=torch.ones_like(tokens), **kwargs)
    return out.sequences, torch.stack(out.scores)


@pytest.mark.parametrize("num_beams", [1, 3])
@torch.no_grad()
def test_generation(llama, tokens, num_beams):
    """Beams are repeated and reordered in the cache."""
    import transformers

    cache, _ = ours()
    got = generate(llama, tokens, num_beams=num_beams, cache=cache)
    for other in ({"cache": transformers.DynamicCache()}, {"use_cache": False}):
        want = generate(llama, tokens, num_beams=num_beams, **other)
        assert torch.equal(got[0], want[0])
        close(got[1], want[1])


@torch.no_grad()
def test_beams_do_move(llama, tokens, monkeypatch):
    """The test before this one would see a cache that does not follow its beams."""
    cache, _ = ours()
    want = generate(llama, tokens, num_beams=3, use_cache=False)
    monkeypatch.setattr(CacheLayer, "reorder_cache", lambda self, rows: None)
    got = generate(llama, tokens, num_beams=3, cache=cache)
    assert not torch.allclose(got[1], want[1], atol=1e-6)


@torch.no_grad()
def test_crop_and_reset(llama, tokens):
    import transformers

    cache, _ = ours()
    dynamic = transformers.DynamicCache()
    for each in (cache, dynamic):
        llama(torch.cat((tokens[:, :4], tokens[:, :3]), dim=1), cache=each)
        each.crop(-3)
        assert each.get_seq_length() == 4
        close(llama(tokens[:, 4:], cache=each).logits, llama(tokens, use_cache=False).logits[:, 4:])
        with pytest.raises(ValueError):
            each.crop(4)
        each.reset()
        assert each.get_seq_length() == 0
        close(llama(tokens[:1], cache=each).logits, llama(tokens[:1], use_cache=False).logits)  # with another B
    assert cache.get_max_length() == 40 and cache.is_croppable


@torch.no_grad()
def test_a_prompt_shared_by_several_sequences(llama, tokens):
    cache, _ = ours()
    llama(tokens[:1, :6], cache=cache)
    cache.batch_repeat_interleave(3)
    next_tokens = torch.tensor([[3], [11], [28]])
    whole = torch.cat((tokens[:1, :6].expand(3, -1), next_tokens), dim=1)
    close(llama(next_tokens, cache=cache).logits[:, -1], llama(whole, use_cache=False).logits[:, -1])
    cache.batch_select_indices(torch.tensor([2, 0]))
    whole = torch.cat((whole[[2, 0]], next_tokens[:2]), dim=1)
    close(llama(next_tokens[:2], cache=cache).logits[:, -1], llama(whole, use_cache=False).logits[:, -1])


@torch.no_grad()
def test_padding_on_the_left(llama, tokens):
    import transformers

    mask = torch.ones_like(tokens)
    mask[1, :4] = 0
    config = transformers.GenerationConfig(max_new_tokens=6, do_sample=False, pad_token_id=0)
    got, want = (
        llama.generate(tokens, generation_config=config, attention_mask=mask, cache=cache)
        for cache in (ours()[0], transformers.DynamicCache())
    )
    assert torch.equal(got, want)


def test_layers_that_are_in_use_are_refused():
    pytest.importorskip("transformers")
    layers = [CacheLayer(40) for _ in range(2)]
    with pytest.raises(ValueError, match="got one twice among 2"):
        as_transformers_cache([layers[0], layers[0]])
    rows = torch.zeros(1, 1, 2, 4)
    layers[1].update(rows, rows)
    with pytest.raises(ValueError, match="one that holds tokens"):
        as_transformers_cache(layers)
    layers[1].reset()
    as_transformers_cache(layers)


@torch.no_grad()
def test_a_full_cache_is_refused(llama, tokens):
    cache, _ = ours(max_len=10)
    llama(tokens, cache=cache)
    with pytest.raises(ValueError, match="holds 9 of 10 tokens, 2 more asked"):
        llama(tokens[:, :2], cache=cache)


@torch.no_grad()
def test_the_lessons_own_llama_with_beams_and_read_from_a_folder(tmp_path):
    """What lesson 10 shows. The generator of the caller's is left where it was."""
    pytest.importorskip("transformers")
    from kvlib.hub_model import load_from_hub

    before = torch.get_rng_state()
    llama = random_llama()
    assert torch.equal(torch.get_rng_state(), before)
    tokens = torch.arange(1, 19).reshape(2, 9)
    cache, _ = ours(num_layers=llama.config.num_hidden_layers)
    sizes = {"max_new_tokens": 12, "num_beams": 3, "attention_mask": torch.ones_like(tokens)}
    mine, theirs = llama.generate(tokens, cache=cache, **sizes), llama.generate(tokens, use_cache=False, **sizes)
    assert torch.equal(mine, theirs) and len(set(mine[0, 9:].tolist())) > 3
    llama.save_pretrained(tmp_path)
    want = llama(tokens, use_cache=False).logits
    torch.testing.assert_close(load_from_hub(tmp_path, torch.float64).logits(tokens), want, atol=1e-4, rtol=0)
