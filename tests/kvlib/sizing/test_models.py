"""The shipped configs: whose they are, and that the shapes give the parameters their makers publish."""

from __future__ import annotations

import pytest

from kvlib.sizing.architecture import FAMILIES, architecture
from kvlib.sizing.models import load_config, names

# Counts by which a model is known are rounded to two digits or three, and Jamba's to the whole billion.
TOTAL, ACTIVE = 0.01, 0.015


def test_there_are_enough_of_them():
    assert len(names()) >= 14 and names() == sorted(names())
    families = {load_config(name)["model_type"] for name in names()}
    assert len(families) >= 10 and families <= set(FAMILIES)


def test_says_where_it_comes_from(shipped):
    assert shipped["_source"].startswith("config.json of ") and "/" in shipped["_source"]
    assert {key for key in shipped if key.startswith("_")} <= {"_source", "_parameters", "_active_parameters"}


def test_has_as_many_parameters_as_published(shipped):
    if "_parameters" not in shipped:
        assert shipped["model_type"] in ("opt", "falcon")  # known by a name that rounds more coarsely
        return
    assert architecture(shipped).parameters == pytest.approx(shipped["_parameters"], rel=TOTAL)


def test_a_token_meets_as_many_parameters_as_published(shipped):
    model = architecture(shipped)
    if "_active_parameters" in shipped:
        assert model.active_parameters == pytest.approx(shipped["_active_parameters"], rel=ACTIVE)
        assert model.routed > 0
    else:
        assert model.routed == 0 and model.active_parameters == model.parameters - model.tables


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("qwen2.5-1.5b", 1_543_714_304),  # with biases, and one table for input and output
        ("gemma-2-27b", 27_227_128_320),
        ("gpt2-xl", 1_557_611_200),
        ("opt-13b", 12_853_473_280),
        ("falcon-7b", 6_921_720_704),
        ("mixtral-8x7b", 46_702_792_704),
        ("jamba-v0.1", 51_570_323_328),
        ("gpt-oss-20b", 20_914_757_184),
        ("deepseek-v2", 235_741_434_880),
        ("deepseek-v3", 671_026_419_200),
    ],
)
def test_parameters_to_the_last_one(name, parameters):
    """As counted once over the modules that the makers' own code builds from the config."""
    assert architecture(load_config(name)).parameters == parameters


def test_a_config_is_the_readers_own():
    load_config("llama-3-8b")["num_hidden_layers"] = 1
    assert load_config("Llama-3-8B")["num_hidden_layers"] == 32


@pytest.mark.parametrize("name", ["llama-4", "", "../models/llama-3-8b", "llama-3-8b.json", None])
def test_unknown_names_get_the_known_ones(name):
    with pytest.raises(ValueError, match="llama-3-8b, llama-3.1-405b, mistral"):
        load_config(name)
