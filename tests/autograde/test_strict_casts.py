"""While they are on, a cast to float8_e4m3fn beyond its numbers gives NaN on every build, and nothing else changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autograde.subject import LocalSubject

torch = pytest.importorskip("torch", reason="torch is missing: see `make torch`")

from autograde.tensors import strict_casts  # noqa: E402
from kvlib.fp8 import to_fp8  # noqa: E402

FP8 = torch.float8_e4m3fn
LAST = 464.0  # halfway to what would be the next number, 480: up to here the nearest is 448
FITS = [0.0, -0.0, 2.0**-9, 1.5, -3.25, 447.0, 448.0, 463.0, 464.0, -464.0]
BEYOND_IT = [465.0, 480.0, -480.0, 500.0, 57344.0, 1e30, math.inf, -math.inf]


def by_to(x):
    return x.to(FP8)


def by_to_with_a_copy(x):
    return x.to(dtype=FP8, copy=True)


def by_type(x):
    return x.type(FP8)


def like_another(x):
    return x.to(torch.zeros(1, dtype=FP8))


def by_copy(x):
    return torch.zeros(x.shape, dtype=FP8).copy_(x)


def by_slice(x):
    codes = torch.zeros(x.shape, dtype=FP8)
    codes[...] = x
    return codes


def into_a_view(x):
    """Column by column into a tensor that does not lie in memory as it reads."""
    codes = torch.zeros(len(x), 3, dtype=FP8)
    codes[:, 1] = x
    assert (codes[:, ::2].float() == 0).all()
    return codes[:, 1]


def as_tensor(x):
    return torch.as_tensor(x, dtype=FP8)


CASTS = (by_to, by_to_with_a_copy, by_type, like_another, by_copy, by_slice, into_a_view, as_tensor)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lies_beyond_becomes_nan(cast, dtype) -> None:
    values = [value for value in BEYOND_IT if float(torch.tensor(value, dtype=dtype).abs()) > LAST]
    assert len(values) >= 7
    with strict_casts():
        codes = cast(torch.tensor(values, dtype=dtype))
    assert codes.dtype == FP8
    assert codes.float().isnan().all()


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_fits_is_cast_as_ever(cast, dtype) -> None:
    x = torch.tensor(FITS, dtype=dtype)
    x = x[x.abs() <= LAST]
    plain = cast(x)
    with strict_casts():
        codes = cast(x)
    assert torch.equal(codes.view(torch.uint8), plain.view(torch.uint8))


@pytest.mark.parametrize("cast", CASTS)
def test_only_the_number_beyond_is_touched(cast) -> None:
    with strict_casts():
        codes = cast(torch.tensor([1.5, 500.0, -3.25, -math.inf, 448.0])).float()
    assert codes.isnan().tolist() == [False, True, False, True, False]
    assert codes[[0, 2, 4]].tolist() == [1.5, -3.25, 448.0]


def test_one_row_for_many() -> None:
    codes = torch.zeros(2, 3, dtype=FP8)
    with strict_casts():
        codes.copy_(torch.tensor([1.0, 500.0, 2.0]))
    assert codes.float().isnan().tolist() == [[False, True, False]] * 2
    with strict_casts():
        codes[:, ::2] = torch.tensor(500.0)
    assert codes.float().isnan().all()


def test_a_clamp_saves_everything() -> None:
    x = torch.tensor(FITS + BEYOND_IT)
    with strict_casts():
        codes = to_fp8(x, torch.ones(1))
    assert codes.float().tolist()[-8:] == [448.0, 448.0, -448.0, 448.0, 448.0, 448.0, 448.0, -448.0]
    assert not codes.float().isnan().any()


def test_nan_stays_nan_and_codes_are_moved_as_they_are() -> None:
    codes = torch.arange(256, dtype=torch.int64).to(torch.uint8).view(FP8)
    with strict_casts():
        assert torch.tensor([math.nan]).to(FP8).float().isnan().all()
        moved = torch.zeros(256, dtype=FP8).copy_(codes)
        again = torch.cat((codes[128:], codes[:128])).roll(128).clone()
    assert torch.equal(moved.view(torch.uint8), codes.view(torch.uint8))
    assert torch.equal(again.view(torch.uint8), codes.view(torch.uint8))


def test_other_types_are_not_touched() -> None:
    x = torch.tensor([500.0, -1e6, math.inf])
    kinds = (torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fnuz)
    plain = [x.to(kind).float() for kind in kinds]
    with strict_casts():
        strict = [x.to(kind).float() for kind in kinds]
        assert torch.tensor([300.7, -2.0]).to(torch.int32).tolist() == [300, -2]
    for one, other in zip(plain, strict, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=0, atol=0)


def test_the_source_stays_as_it_was() -> None:
    x = torch.tensor([500.0, 1.0])
    with strict_casts():
        by_copy(x), by_to(x), by_slice(x)
    assert x.tolist() == [500.0, 1.0]


def test_nothing_changes_outside() -> None:
    x = torch.tensor([500.0, -math.inf, 1.0])
    before = x.to(FP8)
    with strict_casts():
        pass
    with pytest.raises(KeyError), strict_casts():
        raise KeyError
    after = x.to(FP8)
    assert torch.equal(after.view(torch.uint8), before.view(torch.uint8))


@pytest.mark.parametrize(("tensors", "strict"), [("fp8", True), (True, False)])
def test_an_exercise_asks_for_it(tensors, strict) -> None:
    """In functions, in methods and in what is made new; and never between the calls."""

    class Store:
        def __init__(self, x):
            self.codes = x.to(FP8)

        def push(self, x):
            self.codes[:1] = x[:1]
            return self.codes

    x, plain = np.array([500.0, 1.0], "float32"), torch.tensor([500.0, 1.0]).to(FP8).float().isnan().tolist()
    wanted = [True, False] if strict else plain
    subject = LocalSubject(lambda x: x.to(FP8), tensors=tensors)
    assert np.isnan(subject.run(x)).tolist() == wanted
    store = LocalSubject(Store, tensors=tensors)
    handle = store.new(x)
    assert np.isnan(store.get(handle, "codes")).tolist() == wanted
    assert np.isnan(store.call(handle, "push", x[::-1].copy())).tolist() == [False, False]
    assert np.isnan(store.call(handle, "push", x)).tolist() == wanted
    assert torch.tensor([500.0, 1.0]).to(FP8).float().isnan().tolist() == plain
