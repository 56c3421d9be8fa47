"""A plan that is written and read again is the same plan."""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from support.small import conv_model, make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.plan_file import SCALES_ONLY, encode_plan, read_plan_file
from qdqtool.quantization.planning.plan_resolve import resolve_plan

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
