"""The oracle by hand, and its independence."""

from __future__ import annotations

import ast
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import kvlib.recompute_gqa  # noqa: E402
from kvlib.recompute_gqa import recompute_gqa, recompute_rope, recompute_transformer  # noqa: E402

FILE = Path(kvlib.recompute_gqa.__file__)


def test_it_shares_nothing_with_what_it_judges():
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imports if isinstance(node, ast.ImportFrom)}
    assert names == {"__future__", "math", "collections.abc", "typing", "numpy"}
    assert "is_causal" not in FILE.read_text(encoding="utf-8")


def test_it_runs_without_torch():
    code = "import sys; sys.modules['torch'] = None; import kvlib.recompute_gqa"
    subprocess.run([sys.executable, "-c", code], cwd=FILE.parents[1], check=True, timeout=60)


def test_two_keys_by_hand():
    """Scores 0 and log 3 after the scale, so weights 1/4 and 3/4. Heads 0 and 1 read one KV head, 2 and 3 the other."""
    q = np.full((1, 4, 1, 4), 1.0)
    k = np.zeros((1, 2, 2, 4))
    k[:, :, 1, 0] = 2 * math.log(3)  # over sqrt(4)
    v = np.array([[[[0.0], [1.0]], [[10.0], [20.0]]]])  # (1, 2, 2, 1)
    np.testing.assert_allclose(recompute_gqa(q, k, v).ravel(), [0.75, 0.75, 17.5, 17.5])
    first = recompute_gqa(q, k, v, [[True, False]])
    np.testing.assert_allclose(first.ravel(), [0, 0, 10, 10])


def test_a_query_that_sees_nothing_gets_zeros(draw):
    q, k, v = draw(2, 2, 1, 4), draw(2, 2, 3, 4), draw(2, 2, 3, 4)
    k[0, :, 1:] = v[0, :, 1:] = torch.nan  # nobody looks there
    out = recompute_gqa(q, k, v, [[[True, False, False]], [[False] * 3]])
    np.testing.assert_allclose(out[0], v[0, :, :1])
    assert not out[1].any()


def test_one_radian():
    np.testing.assert_allclose(recompute_rope(np.array([1.0, 2.0]), 1, base=7.0), [
        math.cos(1) - 2 * math.sin(1), math.sin(1) + 2 * math.cos(1)
    ])  # fmt: skip


def test_later_tokens_change_nothing(make_model, make_tokens):
    model, tokens = make_model(), make_tokens(1, 6)
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % 13
    one, two = (recompute_transformer(model.weights, model.config, x) for x in (tokens, other))
    np.testing.assert_array_equal(one[:, :4], two[:, :4])
    assert (np.abs(one - two).max(axis=-1)[0, 4:] > 1e-3).all()


def test_what_is_not_a_token_is_refused(make_model):
    model = make_model(1)
    for token in (-1, 13):
        with pytest.raises(ValueError, match=f"token {token} has no row in a table of 13"):
            recompute_transformer(model.weights, model.config, [[0, token]])
