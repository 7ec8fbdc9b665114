"""Trees of every kind for fuzz tests, drawn by hypothesis, and what it means that two are the same to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograde.sandbox.wire import DTYPES
from autograde.value import Handle, Lent, Opaque

# The same examples in every run, and no clock that could fail one.
FUZZ = settings(derandomize=True, deadline=None, database=None)

names = st.text(max_size=8)
any_text = st.text(st.characters(), max_size=12)  # with control characters
ids = st.integers(0, 2**63)
numbers = st.one_of(
    st.integers(-(2**64) + 1, 2**64 - 1), st.sampled_from([2**64 - 1, -(2**64) + 1, 2**63, -(2**63)]), st.floats()
)
scalars = st.one_of(st.none(), st.booleans(), numbers, any_text)


@st.composite
def arrays(draw: st.DrawFn, max_dims: int = 4) -> np.ndarray:
    """Arrays of every dtype that crosses, 0-d and empty ones too, of random bits: every NaN, every denormal."""
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=max_dims, min_side=0, max_side=3))
    count = int(np.prod(shape, dtype=int))
    bits = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    raw = np.frombuffer(bits, np.uint8).copy()
    if dtype.kind == "b":
        raw &= 1
    return raw.view(dtype)[:count].reshape(shape)


references = st.one_of(st.builds(Handle, ids), st.builds(Opaque, names))


def _lent(children: st.SearchStrategy) -> st.SearchStrategy:
    methods = st.lists(names, max_size=3).map(tuple)
    return st.builds(Lent, ids, names, st.booleans(), methods, st.dictionaries(names, children, max_size=2))


trees = st.recursive(
    st.one_of(scalars, arrays(), references),
    lambda children: st.one_of(
        st.lists(children, max_size=4), st.dictionaries(any_text, children, max_size=3), _lent(children)
    ),
    max_leaves=12,
)


def alike(a: Any, b: Any) -> bool:
    """Whether two trees are the same to the last bit, the byte order of arrays and which NaN a float is apart."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        b = b.astype(a.dtype.newbyteorder("="), copy=False)
        return a.shape == b.shape and a.dtype.newbyteorder("=") == b.dtype and _bytes(a) == _bytes(b)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, Lent):
        same = (a.id, a.name, a.is_function, a.methods) == (b.id, b.name, b.is_function, b.methods)
        return same and alike(a.attributes, b.attributes)
    return repr(a) == repr(b)  # -0.0 is not 0.0, and NaN is NaN


def _bytes(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("="), order="C").tobytes()
