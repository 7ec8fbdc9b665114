"""The parameter counts of all shipped configs, against modules that Transformers builds without memory for them."""

from __future__ import annotations

import pytest

from kvlib.sizing.architecture import architecture
from kvlib.sizing.models import load_config, names

torch = pytest.importorskip("torch", reason="torch is not installed: these counts are compared where it is")
transformers = pytest.importorskip("transformers", reason="transformers is not installed: compared where it is")


@pytest.mark.parametrize("name", names())
def test_same_parameters(name):
    config = load_config(name)
    fields = {key: value for key, value in config.items() if key[0] != "_" and key not in ("model_type", "torch_dtype")}
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(
            transformers.CONFIG_MAPPING[config["model_type"]](**fields)
        )
    counted = sum(each.numel() for each in built.parameters())
    # Stored with the weights, and held as a buffer there: what DeepSeek-V3 adds to the scores of its router.
    counted += sum(each.numel() for key, each in built.named_buffers() if key.endswith("e_score_correction_bias"))
    assert architecture(config).parameters == counted
