"""A model's folder as the hub keeps it, read as one of ours: on tiny random models that are saved here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from kvlib.hub_model import load_from_hub, read_hub_config, read_safetensors  # noqa: E402

PLAIN = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 29,
    "hidden_size": 12,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500.0,
}


def saved(folder, kind="Llama", dtype=None, shards=False, **changed):
    """A random model of Transformers, saved to a folder, and the model."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    known = {name: value for name, value in PLAIN.items() if name not in ("architectures", "rope_theta")}
    known |= {"initializer_range": 0.3, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}
    config = getattr(transformers, f"{kind}Config")(**(known | changed), attn_implementation="sdpa")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).to(dtype or torch.float32).eval()
    model.save_pretrained(folder, max_shard_size="2KB" if shards else "1GB")
    return model


CASES = [
    {},
    {"tie_word_embeddings": True},
    {"num_key_value_heads": 6},
    {"head_dim": None, "hidden_size": 24},
    {"shards": True},
    {"kind": "Mistral", "sliding_window": None},
    {"attention_bias": False, "rope_parameters": {"rope_type": "default", "rope_theta": 70.0}},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@torch.no_grad()
def test_the_logits_are_theirs(tmp_path, case):
    theirs = saved(tmp_path, **case)
    ours = load_from_hub(str(tmp_path))
    tokens = torch.randint(29, (2, 9), generator=torch.Generator().manual_seed(1))
    want = theirs(tokens, use_cache=False).logits
    torch.testing.assert_close(ours.logits(tokens), want, atol=1e-4, rtol=0)
    assert want.std() > 0.1  # logits that are all alike would prove nothing
    assert ours.config.tied == case.get("tie_word_embeddings", False)
    if case.get("shards"):
        assert len(list(tmp_path.glob("*.safetensors"))) > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_weights_of_every_width_are_turned_into_the_one_asked_for(tmp_path, dtype):
    theirs = saved(tmp_path, dtype=dtype)
    ours = load_from_hub(tmp_path, torch.float64)
    assert torch.equal(ours.weights["1.q"], theirs.model.layers[1].self_attn.q_proj.weight.detach().double())
    assert {weight.dtype for weight in ours.weights.values()} == {torch.float64}


REFUSED = [
    ({"architectures": ["Qwen2ForCausalLM"]}, "architecture Qwen2ForCausalLM: known here are LlamaForCausalLM"),
    ({"architectures": None}, "architecture none"),
    ({"attention_bias": True}, "biases in attention"),
    ({"mlp_bias": True}, "biases in the feed-forward part"),
    ({"hidden_act": "gelu"}, "the activation 'gelu'"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rotary positions scaled by .*llama3"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rotary positions scaled by .*linear"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "rotary positions scaled by .*yarn"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "turned in part"),
    ({"sliding_window": 4096}, "a sliding window of 4096"),
    ({"quantization_config": {"bits": 4}}, "quantised weights"),
    ({"num_key_value_heads": 4}, "4 KV heads do not divide 6"),
    ({"head_dim": 7}, "even head_dim, got 7"),
]


@pytest.mark.parametrize(("changed", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_other_models_are_refused_by_what_differs(changed, words):
    assert read_hub_config(PLAIN).rope_base == 500.0
    with pytest.raises(ValueError, match=words):
        read_hub_config(PLAIN | changed)


def test_a_weight_without_a_place_is_refused(tmp_path):
    """The config of some models does not tell of all that they have: biases of q and k, or norms of heads."""
    saved(tmp_path, attention_bias=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"attention_bias": False}))
    with pytest.raises(ValueError, match="self_attn.*bias.*no place here"):
        load_from_hub(tmp_path)


def test_a_missing_weight_and_a_damaged_file_are_refused(tmp_path):
    saved(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match="weight '2.norm1' must have shape .* got nothing"):
        load_from_hub(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="the file ends within"):
        dict(read_safetensors(file))
    file.write_bytes(whole[:50])
    with pytest.raises(ValueError, match="cut off"):
        dict(read_safetensors(file))
    file.write_bytes(whole.replace(b'"F32"', b'"I32"'))
    with pytest.raises(ValueError, match="is of I32; known here: F64"):
        dict(read_safetensors(file))


def _entry(**changed):
    return {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changed}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "the table of tensors is a list"),
        ({"w": {"dtype": "F32"}}, "w has .'dtype'., wanted dtype, shape and data_offsets"),
        (_entry(shape=[20, 3]), "bytes 0 to 24, its shape takes 240"),
        (_entry(dtype="F64"), "bytes 0 to 24, its shape takes 48"),
        (_entry(data_offsets=[24, 0]), "bytes 24 to 0"),
        (_entry(data_offsets=[-8, 16]), "bytes -8 to 16"),
        (_entry(shape=[0, 3], data_offsets=[0, 0]), "its shape takes 0"),
    ],
    ids=str,
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, table, words):
    head = json.dumps(table).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(24))
    with pytest.raises(ValueError, match=words):
        list(read_safetensors(path))
    right = json.dumps(_entry()).encode()
    path.write_bytes(len(right).to_bytes(8, "little") + right + bytes(24))
    assert [(name, tensor.shape) for name, tensor in read_safetensors(path)] == [("w", (2, 3))]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([], "must hold names and values, got a list"),
        ({**PLAIN, "hidden_size": None}, "a whole number hidden_size, got None"),
        ({**PLAIN, "num_attention_heads": "six"}, "a whole number num_attention_heads, got 'six'"),
        (
            {**PLAIN, "rope_parameters": {"rope_type": "default"}, "rope_scaling": {"type": "yarn", "factor": 4}},
            "scaled by .*yarn",
        ),
    ],
    ids=("list", "no size", "text", "both ways"),
)
def test_a_config_that_says_too_little_or_two_things_is_refused(known, words):
    with pytest.raises(ValueError, match=words):
        read_hub_config(known)
    assert read_hub_config({**PLAIN, "rms_norm_eps": None}).eps == 1e-6


def test_an_index_without_a_map_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match="has no weight_map"):
        load_from_hub(tmp_path)


def test_nothing_there(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="has no config.json"):
        load_from_hub(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    with pytest.raises(FileNotFoundError, match="has no model.safetensors$"):
        load_from_hub(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "transformers.utils", None)
    with pytest.raises(FileNotFoundError, match="no/model is no folder here"):
        load_from_hub("no/model")


def test_a_name_that_cannot_be_downloaded_says_so():
    """Without a network, and told so: nothing is asked of anybody."""
    pytest.importorskip("transformers")
    code = "import os; os.environ['HF_HUB_OFFLINE'] = '1'\nfrom kvlib.hub_model import load_from_hub\n"
    code += "try:\n    load_from_hub('nobody/nothing-like-it')\nexcept FileNotFoundError as error:\n    print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("nobody/nothing-like-it has no config.json"), done.stdout + done.stderr
