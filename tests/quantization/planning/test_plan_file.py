"""Plan files: every key is known, every number is one, and a plan that is written and read is the same plan."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import save_file
from support.refusals import refused
from support.small import conv_model, make_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning import plan_file
from qdqtool.quantization.planning.plan_file import (
    SCALES_ONLY,
    ArrayRef,
    PlanEntry,
    PlanFile,
    encode_plan,
    read_numbers,
    read_plan_file,
)
from qdqtool.quantization.planning.plan_resolve import resolve_plan

ENTRY = {"tensor": "x", "format": "int8", "scale": 0.5}
KEYS = "tensor, format, scale, scale_format, scale_scale, zero_point, axis, block_size, consumers, scope, reason"


def read(folder: Path, document: Any, name: str = "p.json") -> PlanFile:
    (folder / name).write_text(document if isinstance(document, str) else json.dumps(document))
    return read_plan_file(folder / name)


def refusal(folder: Path, document: Any, name: str = "p.json") -> str:
    with pytest.raises(UsageError) as caught:
        read(folder, document, name)
    return caught.value.message.replace(str(folder / name), "P")


def test_every_key_is_read(tmp_path: Path) -> None:
    keys = {
        **ENTRY,
        "scale": {"file": "s.npz", "key": "k"},
        "scale_format": "float8e4m3fn",
        "scale_scale": 2.0,
        "zero_point": [1],
        "axis": -1,
        "block_size": 16,
        "consumers": ["c"],
        "scope": "",
        "reason": "so",
    }
    plan = read(tmp_path, {"schema_version": 1, "tensors": [keys, ENTRY]})
    assert plan == PlanFile(
        schema_version=1,
        tensors=[
            PlanEntry(**{**keys, "scale": ArrayRef("s.npz", "k")}),
            PlanEntry(tensor="x", format="int8", scale=0.5, reason="named by the plan"),
        ],
    )


@pytest.mark.parametrize("name", ["p.json", "P.JSON"])
def test_json_is_told_by_the_end_of_the_name(tmp_path: Path, name: str) -> None:
    assert len(read(tmp_path, {"schema_version": 1, "tensors": [ENTRY]}, name).tensors) == 1
    assert refusal(tmp_path, "[", name).startswith("plan P is not valid JSON: ")


def test_everything_else_is_toml(tmp_path: Path) -> None:
    text = "schema_version = 1\n[[tensors]]\ntensor = 'x'\nformat = 'int8'\nscale = 0.5\n"
    assert read(tmp_path, text, "p.txt").tensors[0].scale == 0.5
    assert refusal(tmp_path, "{", "p.toml").startswith("plan P is not valid TOML: ")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], "plan P holds no table of keys"),
        ({"schema_version": 2, "tensors": [ENTRY]}, "plan P has schema_version 2; this qdqtool reads 1"),
        ({"schema_version": 1, "tensors": []}, "plan P names no tensor: it has no [[tensors]] entry"),
        (
            {"schema_version": 1, "tensors": [ENTRY, {**ENTRY, "formats": 1}]},
            f"plan P, entry 2: unknown key 'formats'; legal: {KEYS}; did you mean 'format'?",
        ),
        ({"schema_version": 1, "tensors": 3}, "plan P: Expected 'array', got 'int' - at '$.tensors'"),
        ({"schema_version": 1, "tensors": [3]}, "plan P: Expected 'object', got 'int' - at '$.tensors[0]'"),
    ],
)
def test_what_is_no_plan_says_why(tmp_path: Path, document: Any, message: str) -> None:
    assert refusal(tmp_path, document) == message


def test_a_plan_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"schema_version": 1, "tensors": [ENTRY]})
    monkeypatch.setattr(plan_file, "MAX_PLAN_BYTES", len(text))
    assert len(read(tmp_path, text).tensors) == 1
    monkeypatch.setattr(plan_file, "MAX_PLAN_BYTES", len(text) - 1)
    assert refusal(tmp_path, text) == "plan P is larger than 0 MiB"
    monkeypatch.undo()
    with (tmp_path / "p.json").open("wb") as stream:
        stream.truncate((1 << 28) + 1)
    with pytest.raises(UsageError, match="is larger than 256 MiB"):
        read_plan_file(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, np.array(0.5)),
        (3, np.array(3)),
        ([1, 2], np.array([1, 2])),
        ([[0.5], [1]], np.array([[0.5], [1.0]])),
        ([2**63], np.array([2**63], np.uint64)),
    ],
)
def test_numbers_and_nested_lists_are_arrays(value: Any, expected: np.ndarray, tmp_path: Path) -> None:
    found = read_numbers(value, tmp_path, "scale")
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("value", [["a"], [True], [None], [{}]])
def test_other_lists_are_refused(value: Any, tmp_path: Path) -> None:
    with refused(UsageError, f"scale of tensor 'w': {value!r} is not a number or (nested) list of numbers"):
        read_numbers(value, tmp_path, "scale of tensor 'w'")


ARRAYS = {
    "f32": np.ones(2, np.float32),
    "f16": np.ones(2, np.float16),
    "u8": np.ones(2, np.uint8),
    "i8": np.ones(2, np.int8),
}


@pytest.mark.parametrize("name", ["s.npz", "s.safetensors"])
def test_arrays_of_files(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "s.npz", **ARRAYS)
    save_file(ARRAYS, tmp_path / "s.safetensors")
    for key, array in ARRAYS.items():
        found = read_numbers(ArrayRef(name, key), tmp_path, "scale")
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


def test_bfloat16_arrays_are_numbers_and_booleans_are_not(tmp_path: Path) -> None:
    save_file({"half": np.ones(2, ml_dtypes.bfloat16), "flags": np.ones(2, bool)}, tmp_path / "s.safetensors")
    assert read_numbers(ArrayRef("s.safetensors", "half"), tmp_path, "scale").tolist() == [1, 1]
    with pytest.raises(UsageError) as caught:
        read_numbers(ArrayRef("s.safetensors", "flags"), tmp_path, "scale")
    path = tmp_path / "s.safetensors"
    assert caught.value.message == f"scale: array 'flags' of {path} has type bool, not a number type"


def test_an_npy_is_no_store_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.ones(2))
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    for name in ("s.npy", "empty.npz", "empty.safetensors"):
        with refused(
            UsageError, f"scale: {tmp_path / name} is no readable npz or safetensors file (pickled objects are refused)"
        ):
            read_numbers(ArrayRef(name, "x"), tmp_path, "scale")


def test_a_missing_array_lists_eight_that_are_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", **{f"k{number}": np.ones(1) for number in range(10)})
    with refused(UsageError, f"scale: {tmp_path / 's.npz'} has no array 'zzz'; it has k0, k1, k2, k3, k4, k5, k6, k7"):
        read_numbers(ArrayRef("s.npz", "zzz"), tmp_path, "scale")


NVFP4 = QuantScheme(
    formats.get("float4e2m1"), Blocked(0, 16), scale_scheme=QuantScheme(formats.get("float8e4m3fn"), PerTensor())
)
STEP = QuantParams(QuantScheme(formats.get("float8e4m3fn"), PerTensor()), np.float32(0.1).reshape(()))


def scheme(granularity: Granularity, *, symmetric: bool = True, fmt: str = "int8") -> QuantScheme:
    return QuantScheme(formats.get(fmt), granularity, symmetric)


def written(*placements: Placement) -> list[dict[str, object]]:
    document = json.loads(encode_plan(QuantPlan(placements)))
    assert document["schema_version"] == 1
    return document["tensors"]


@pytest.mark.parametrize(
    ("params", "keys"),
    [
        (QuantParams(scheme(PerTensor()), np.array(0.1, np.float32)), {"scale": float(np.float32(0.1))}),
        (QuantParams(scheme(PerAxis(1)), np.array([0.5, 0.25], np.float16)), {"axis": 1, "scale": [0.5, 0.25]}),
        (
            QuantParams(scheme(Blocked(0, 2), fmt="int4"), np.array([[0.5], [0.25]], np.float32)),
            {"axis": 0, "block_size": 2, "scale": [[0.5], [0.25]], "format": "int4"},
        ),
        (
            QuantParams(scheme(PerTensor(), symmetric=False), np.array(1.0, np.float32), np.array(-3, np.int8)),
            {"scale": 1.0, "zero_point": -3},
        ),
    ],
)
def test_an_entry_has_the_constants_of_its_pair_and_no_others(params: QuantParams, keys: dict[str, object]) -> None:
    (entry,) = written(Placement(Slot(("i.then_branch", "j.body"), "t"), params, "why"))
    always = {"tensor": "t", "scope": "i.then_branch/j.body", "format": "int8", "reason": "why"}
    assert entry == always | keys


def test_consumers_are_named_once_by_their_first_output_with_a_name() -> None:
    uses = (UseRef((), ("", "b"), 0), UseRef((), ("", "b"), 1), UseRef((), ("a", "c"), 0))
    params = QuantParams(scheme(PerTensor()), np.array(1.0, np.float32))
    one, none = written(Placement(Slot((), "t", uses), params, ""), Placement(Slot((), "u"), params, ""))
    assert one["consumers"] == ["b", "a"]
    assert "consumers" not in none


def test_chosen_codes_are_not_kept_and_the_reason_says_so() -> None:
    params = QuantParams(scheme(PerTensor()), np.array(1.0, np.float32))
    chosen, nearest = written(
        Placement(Slot((), "t"), params, "weight of MatMul", codes=Payload(0, bytes)),
        Placement(Slot((), "u"), params, "plain"),
    )
    assert chosen["reason"] == f"weight of MatMul; {SCALES_ONLY}"
    assert nearest["reason"] == "plain"


def test_what_is_written_reads_as_the_same_plan(tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("MatMul", ["x", "v"], ["n"])],
        {"x": (4, 32)},
        {"m": (4, 2), "n": (4, 2)},
        {"w": np.ones((32, 2), np.float32), "v": np.ones((32, 2), np.float32)},
    )
    scales = np.array([[0.1, 0.2], [0.3, 12.8]], np.float32)
    plan = QuantPlan(
        (
            Placement(
                Slot((), "x", (UseRef((), ("n",), 0),)),
                QuantParams(scheme(PerTensor(), symmetric=False), np.array(1 / 3, np.float32), np.array(7, np.int8)),
                "a",
            ),
            Placement(Slot((), "w"), QuantParams(scheme(PerAxis(1)), np.array([0.1, 0.7], np.float32)), "b"),
            Placement(Slot((), "v"), QuantParams(NVFP4, scales, scale_params=STEP), "c"),
        )
    )
    (tmp_path / "p.json").write_bytes(encode_plan(plan))
    file = read_plan_file(tmp_path / "p.json")
    assert [(entry.scale_format, entry.scale_scale) for entry in file.tensors] == [
        (None, None),
        (None, None),
        ("float8e4m3fn", float(np.float32(0.1))),
    ]
    again = resolve_plan(file, ModelIndex.of(Model(model)), tmp_path)
    for old, new in zip(plan, again, strict=True):
        assert (new.slot, new.reason, new.params.scheme) == (old.slot, old.reason, old.params.scheme)
        assert np.array_equal(new.params.zero_point or 0, old.params.zero_point or 0)
    assert encode_plan(again) == (encode_plan(_through(plan, again)))


def _through(plan: QuantPlan, again: QuantPlan) -> QuantPlan:
    """The plan, with block scales as float8 has them."""
    stored = [new.params if old.params.scheme == NVFP4 else old.params for old, new in zip(plan, again, strict=True)]
    return QuantPlan(tuple(Placement(old.slot, params, old.reason) for old, params in zip(plan, stored, strict=True)))


def test_scales_keep_their_bits(tmp_path: Path) -> None:
    scale = np.nextafter(np.float32(0.1), np.float32(1))
    plan = QuantPlan((Placement(Slot((), "x"), QuantParams(scheme(PerTensor()), scale.reshape(())), ""),))
    (tmp_path / "p.json").write_bytes(encode_plan(plan))
    (found,) = resolve_plan(read_plan_file(tmp_path / "p.json"), ModelIndex.of(Model(conv_model())), tmp_path)
    assert found.params.scale == scale
