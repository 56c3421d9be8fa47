"""Scales of plan entries, rounded to what the model stores: the type of the data, or a format of their own."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto
from support.refusals import refused

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.planning.plan_file import ArrayRef, PlanEntry
from qdqtool.quantization.planning.plan_scales import StoredScale, stored_scale

E4M3 = sorted({Fraction(float(code)) for code in np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)})
"""The magnitudes of float8e4m3fn, the largest of which is 448."""


def stored(scale: Any, elem_type: int = TensorProto.FLOAT, folder: Path = Path(), **keys: Any) -> StoredScale:
    entry = PlanEntry(tensor="w", format="float4e2m1", scale=scale, **keys)
    return stored_scale(entry, np.asarray(scale), elem_type, folder)


def refusal(scale: Any, elem_type: int = TensorProto.FLOAT, **keys: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        stored(scale, elem_type, **keys)
    return caught.value.message


def nearest(value: Fraction, legal: list[Fraction]) -> list[Fraction]:
    """The legal values that are nearest to a value: two at the middle between them."""
    best = min(abs(each - value) for each in legal)
    return [each for each in legal if abs(each - value) == best]


@given(scale=st.floats(2.0**-6, 200.0, width=32), step=st.floats(0.5, 2.0, width=32))
def test_scales_of_float8_are_the_nearest_codes_times_the_step(scale: float, step: float) -> None:
    found = stored([scale], scale_format="float8e4m3fn", scale_scale=step)
    # The division may be rounded to float32 before the nearest code is taken.
    wanted = (Fraction(scale) / Fraction(step), Fraction(float(np.float32(scale) / np.float32(step))))
    codes = [code for value in wanted for code in nearest(value, E4M3)]
    assert found.scale.dtype == np.float32
    assert found.scale[0] in [np.float32(float(code) * np.float64(step)) for code in codes]
    assert float(found.params.scale) == step
    assert found.scheme.format.name == "float8e4m3fn"


@pytest.mark.parametrize(
    ("elem_type", "dtype"),
    [
        (TensorProto.FLOAT, np.dtype(np.float32)),
        (TensorProto.FLOAT16, np.dtype(np.float16)),
        (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    ],
)
def test_plain_scales_have_the_type_of_the_tensor(elem_type: int, dtype: np.dtype[Any]) -> None:
    found = stored([0.1, 3.0], elem_type)
    assert found.scale.dtype == dtype
    assert found.scale.tolist() == np.array([0.1, 3.0], np.float32).astype(dtype).tolist()
    assert (found.scheme, found.params) == (None, None)


def test_powers_of_two_are_stored_as_such() -> None:
    found = stored([0.25, 1.0, 8.0], scale_format="float8e8m0")
    assert found.scale.dtype == np.dtype(ml_dtypes.float8_e8m0fnu)
    assert found.scale.astype(np.float32).tolist() == [0.25, 1.0, 8.0]
    assert found.scheme.format.name == "float8e8m0"
    assert found.params is None


FLOAT8 = "float8e4m3fn"


@pytest.mark.parametrize(
    ("scale", "scale_format", "scale_scale", "message"),
    [
        (1.0, None, 1.0, "scale_scale needs scale_format, the format that it scales"),
        (1.0, "float8e8m0", 1.0, "scale_scale is set, but float8e8m0 stores scales as they are; leave it out"),
        (1.0, FLOAT8, None, "scale_format is float8e4m3fn and scale_scale is absent; give the scale of the scales"),
        ([1, 897, 900.0], FLOAT8, 2.0, "scale 897 is above 896, the largest that float8e4m3fn holds with scale_scale "),
        ([1.0, 2.0**-11], FLOAT8, 1.0, "scale 0.000488281 is 0 when stored as float8e4m3fn with scale_scale 1"),
        (1e-46, None, None, "scale 1e-46 is 0 when stored as float32, the type of the tensor"),
        (1.0, FLOAT8, 1e-60, "scale 1e-60 is 0 when stored as float32"),
        (1.0, "int32", 1.0, "scale_format is int32, which cannot store scales; usual: float8e4m3fn, float8e8m0"),
        (1.0, "int9", 1.0, "format 'int9' is unknown"),
    ],
)
def test_scales_that_cannot_be_stored_so(
    scale: Any, scale_format: str | None, scale_scale: float | None, message: str
) -> None:
    assert refusal(scale, scale_format=scale_format, scale_scale=scale_scale).startswith(message)


def test_the_largest_scale_of_the_format_is_legal() -> None:
    found = stored([896.0], scale_format="float8e4m3fn", scale_scale=2.0)
    assert found.scale.tolist() == [896.0]


def test_a_scale_of_scales_is_one_number(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", two=np.ones(2), one=np.array([2.0]), none=np.ones(0))
    for key, size in (("two", 2), ("none", 0)):
        with refused(ArgumentError, f"scale_scale has {size} elements; it must be one number"):
            of_file(tmp_path, key)
    found = of_file(tmp_path, "one")
    assert found.params.scale.shape == ()
    assert float(found.params.scale) == 2.0
    with pytest.raises(UsageError, match=r"scale_scale: .* has no array 'x'"):
        of_file(tmp_path, "x")


def of_file(folder: Path, key: str) -> StoredScale:
    """A float8 scale whose own scale is an array of ``s.npz``."""
    return stored([1.0], folder=folder, scale_format="float8e4m3fn", scale_scale=ArrayRef("s.npz", key))


@pytest.mark.parametrize("name", ["int8", "float8e5m2", "float8e4m3fn"])
def test_other_formats_of_quantize_linear_may_hold_scales(name: str) -> None:
    assert stored([3.0], scale_format=name, scale_scale=1.0).scale.tolist() == [3.0]


def test_a_scale_that_bfloat16_moves_to_another_code_is_too_coarse() -> None:
    """int16 has more digits than bfloat16, so the dequantized scale falls to another code."""
    keys: dict[str, Any] = {"scale_format": "int16", "scale_scale": 1.0}
    assert refusal([256.0, 257.0], TensorProto.BFLOAT16, **keys) == (
        "scale 257 is too coarse in bfloat16, the type of the tensor"
    )
    assert stored([256.0, 258.0], TensorProto.BFLOAT16, **keys).scale.astype(np.float32).tolist() == [256.0, 258.0]
