"""The tiny trained model that the course ships: the file, what it can do, and that its recipe can still be followed."""

from __future__ import annotations

import hashlib
from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kvlib.needles import CHAIN, KNOWN, sample_questions, sample_texts  # noqa: E402
from kvlib.tiny_model import CONFIG, FILE, load_tiny, recipe  # noqa: E402
from kvlib.train_tiny import accuracy, loss_of, train  # noqa: E402

SHA256 = "93f0ac42f1985e9f9efa847e96364ba8951a0a3735bc8ebcf060f5c849defc53"


def test_the_file_is_the_one_that_was_trained():
    data = FILE.read_bytes()
    assert len(data) <= 260_000
    assert hashlib.sha256(data).hexdigest() == SHA256


def test_it_holds_the_weights_of_a_transformer_of_62_272_parameters():
    with np.load(FILE, allow_pickle=False) as held:
        assert {name: held[name].shape for name in held.files if name != "recipe"} == CONFIG.shapes()
        assert {str(held[name].dtype) for name in CONFIG.shapes()} == {"float16"}
    assert sum(weight.numel() for weight in load_tiny().weights.values()) == 62_272
    assert {weight.dtype for weight in load_tiny(torch.float64).weights.values()} == {torch.float64}


def test_it_finds_needles_as_well_as_its_recipe_says():
    said = recipe()
    assert said["seed"] == 0 and said["lengths"] == [65, 129, 257]
    assert min(said["accuracy"].values()) >= 0.99
    model = load_tiny()
    for gap in ("80", "200"):
        assert accuracy(model, int(gap)) == pytest.approx(said["accuracy"][gap], abs=0.01)


def test_it_knows_the_chain_nearly_as_well_as_it_can_be_known():
    """Three successors, each as likely: perplexity 3 where it is clear that no needle begins."""
    text = sample_texts(20, 257, torch.Generator().manual_seed(9))
    surprise = -load_tiny().logits(text.tokens).log_softmax(-1)[:, :-1].gather(2, text.tokens[:, 1:, None])[..., 0]
    second = (text.kinds[:, 1:] == CHAIN) & (torch.arange(256) % 2 == 1)
    assert 1.09 < float(surprise[second].mean()) < 1.25  # log 3 = 1.099
    assert float(surprise[text.kinds[:, 1:] == KNOWN].mean()) < 0.05


def test_without_the_texts_beginning_it_can_only_guess():
    """A negative control: cut the needle off, and the question cannot be answered."""
    tokens, wanted = sample_questions(100, 200, 128, torch.Generator().manual_seed(2))
    cut = torch.cat((tokens[:, :1], tokens[:, -100:]), dim=1)
    share = float((load_tiny().logits(cut)[:, -1].argmax(-1) == wanted).double().mean())
    assert share < 0.2  # 1 in 24 by guessing


def test_the_recipe_still_trains():
    losses = [(step, length, loss) for step, length, loss, _, _ in islice(train(0), 24)]
    assert [row[:2] for row in losses] == [(i, 65) for i in range(1, 25)]
    assert losses[-1][2] < 0.93 * losses[0][2]


def test_the_loss_of_the_trained_model_counts_what_was_found():
    text = sample_texts(10, 129, torch.Generator().manual_seed(3))
    loss, share = loss_of(load_tiny(), text)
    assert share > 0.98 and float(loss) < 2
