"""Older releases of a target: what they lack, and that findings tell since when it is there."""

import re
from dataclasses import fields
from typing import get_type_hints

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.paths import ROOT
from support.qdq import constant
from support.tensorrt_api import JETPACK, TENSORRT, Release
from support.tensorrt_api.wheels import stub_text

from qdqtool.errors import ArgumentError
from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model
from qdqtool.models.targets import Target
from qdqtool.models.targets._target import ENTERPRISE
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

CHANGES = targets.changes("tensorrt")
RELEASES = targets.releases("tensorrt")


def order(number: str) -> tuple[int, ...]:
    return tuple(map(int, number.split(".")))


def findings(model: onnx.ModelProto, target: str, code: str, *capabilities: int) -> list[Finding]:
    return list(rules.get(code).run(RuleContext(Model(model)), targets.get(target).on(capabilities)))


def pair(quantized: int, shape: tuple[int, ...] = (2, 4), **attributes: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    constants = [constant("s", np.float32(0.1)), constant("z", np.zeros(()), quantized)]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def test_ids_are_the_target_and_its_release():
    assert RELEASES[0] == "tensorrt-10.0"
    assert RELEASES[-1] == "tensorrt-11.4"
    assert all(targets.get(name).id == name and targets.get(name).family == "tensorrt" for name in RELEASES)
    assert targets.get("tensorrt-10.8").title == "TensorRT 10.8"
    assert targets.releases("onnx") == targets.releases("nonsense") == ()
    assert not set(RELEASES) & set(targets.names()), "lists of targets stay short"


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("tensorrt-10", "tensorrt-10.16"), ("tensorrt-10.99", "tensorrt-10.9"), ("tensorrt10.8", "tensorrt-10.8")],
)
def test_a_release_that_is_none_is_refused_with_a_suggestion(wrong: str, near: str):
    with pytest.raises(ArgumentError, match=f"'{wrong}' is unknown; .* to tensorrt-11.4; did you mean '{near}'"):
        targets.get(wrong)


@pytest.mark.parametrize("other", ["onnx-10.8", "tensorrt-rtx-1.7", "-10.8", "tensorrt-"])
def test_other_targets_have_no_releases(other: str):
    with pytest.raises(ArgumentError, match="is unknown"):
        targets.get(other)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("10.8.0.43", "tensorrt-10.8"), ("10.14.1.48.post1", "tensorrt-10.14"), ("9.3", "tensorrt"), ("", "tensorrt")],
)
def test_an_installed_version_belongs_to_a_release(version: str, expected: str):
    assert targets.of_release("tensorrt", version) == expected


def test_changes_are_newest_first_told_and_about_releases_that_exist():
    numbers = [change.since for change in CHANGES]

    assert numbers == sorted(set(numbers), key=order, reverse=True)
    assert {f"tensorrt-{number}" for number in numbers} <= set(RELEASES)
    assert all(change.summary and change.evidence and (change.brings or change.before) for change in CHANGES)


def test_the_newest_release_is_the_target_itself():
    newest, plain = targets.get(RELEASES[-1]), targets.get("tensorrt")
    differing = {each.name for each in fields(Target) if getattr(newest, each.name) != getattr(plain, each.name)}

    assert differing == {"id", "title", "verified"}
    assert "not run by us" in newest.verified


def test_what_a_change_says_of_fields_has_their_types():
    kinds = {"even_last_dimension": bool, "uint8_as_int8": bool, "default_axis": int, "newest_compute_capability": int}

    for change in CHANGES:
        for name, value in change.before.items():
            assert name in get_type_hints(Target)
            assert type(value) is kinds[name]
            assert value != getattr(targets.get("tensorrt"), name)


def test_each_release_lacks_exactly_what_came_after_it():
    for release in RELEASES:
        number = order(release.removeprefix("tensorrt-"))
        later = {name: change.since for change in CHANGES if order(change.since) > number for name in change.brings}
        target = targets.get(release)

        assert target.later == later
        assert not target.quantize_types & set(later)
        assert not (target.initializer_types or set()) & set(later)


def test_fp4_is_refused_before_10_8_and_the_finding_says_so():
    (old,) = findings(pair(TensorProto.FLOAT4E2M1), "tensorrt-10.7", "QP103")

    assert (old.severity, old.effect, old.found) == ("error", "refused", "float4e2m1")
    assert old.expected == "float8e4m3fn, int4, int8 (float4e2m1 from release 10.8 on)"
    assert findings(pair(TensorProto.FLOAT4E2M1), "tensorrt-10.8", "QP103") == []


def test_uint8_is_refused_before_10_10_and_computed_as_int8_from_then_on():
    def effect(target: str) -> str:
        return findings(pair(TensorProto.UINT8), target, "QP103")[0].effect

    assert [effect(f"tensorrt-10.{minor}") for minor in (9, 10, 16)] == ["refused", "silent", "silent"]
    assert effect("tensorrt") == "silent"


@pytest.mark.parametrize(("release", "count"), [("tensorrt-10.5", 1), ("tensorrt-10.6", 0), ("tensorrt", 0)])
def test_rows_of_4_bit_codes_were_packed_one_by_one(release: str, count: int):
    found = findings(pair(TensorProto.INT4, (2, 3)), release, "QA204")

    assert [finding.message for finding in found] == ["int4 tensor of shape [2, 3]: the last dimension is 3"] * count
    assert len(findings(pair(TensorProto.INT4, (3, 3)), release, "QA204")) == 1


@pytest.mark.parametrize(
    ("shape", "release", "told"),
    [
        ((2, 2), "tensorrt-10.10", [("error", "silent")]),
        ((3, 2), "tensorrt-10.10", [("error", "refused")]),
        ((2, 2), "tensorrt-10.15", [("warning", "advice")]),
        ((2, 2), "tensorrt", [("warning", "advice")]),
    ],
)
def test_scales_without_an_axis(shape: tuple[int, ...], release: str, told: list[tuple[str, str]]):
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"])
    constants = [constant("w", np.ones(shape), TensorProto.INT8), constant("s", np.ones(2))]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([node], "g", [], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = findings(model, release, "QS002")

    assert [(finding.severity, finding.effect) for finding in found] == told
    assert ("TensorRT 10.10 takes 0" in found[0].message) == (release == "tensorrt-10.10")


def test_an_operator_tells_the_release_that_brought_it():
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 4, 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Attention", ["x", "x", "x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    (found,) = findings(model, "tensorrt-10.13", "QT408")

    assert found.message == "TensorRT 10.13 does not know Attention"
    assert found.expected == "release 10.14 or later"
    assert findings(model, "tensorrt-10.14", "QT408") == findings(model, "tensorrt", "QT408") == []


def test_a_local_function_of_a_later_operators_name_is_not_that_operator():
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["": 21, "mine": 1]>
        agraph (float[1,4] x) => (float[1,4] y) { y = mine.Attention (x) }
        <domain: "mine", opset_import: ["": 21]>
        Attention (a) => (b) { b = Relu (a) }
        """
    )

    assert findings(model, "tensorrt-10.0", "QT408") == []


def test_gpus_newer_than_a_release():
    (found,) = findings(pair(TensorProto.INT8), "tensorrt-10.7", "QT401", 120)

    assert found.message == "TensorRT 10.7 cannot build for compute capability 12.0"
    assert found.expected == "9.0 or earlier"
    assert findings(pair(TensorProto.INT8), "tensorrt-10.8", "QT401", 120) == []


def test_plans_are_told_too():
    def told(name: str, target: str) -> list[str]:
        params = QuantParams(QuantScheme(formats.get(name), PerTensor()), np.float32(0.5), None)
        return [found.reason for found in targets.refusals(targets.get(target), params, "float32", (4, 3))]

    assert told("float4e2m1", "tensorrt-10.7")[0] == "takes no float4e2m1 before release 10.8"
    assert told("int4", "tensorrt-10.5") == ["takes no int4 tensor with an odd last dimension"]
    assert told("int4", "tensorrt-10.6") == told("float4e2m1", "tensorrt-10.8") == []


def test_the_page_tells_every_change():
    page = (ROOT / "docs" / "reference" / "numerics.md").read_text(encoding="utf-8")
    rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith(("| 10.", "| 11."))}

    assert list(rows) == [change.since for change in CHANGES]
    for change in CHANGES:
        assert change.summary in rows[change.since].replace("`", "")
        assert change.evidence in rows[change.since].replace("`", "")


TYPES = {
    "int8": "INT8",
    "int4": "INT4",
    "float8e4m3fn": "FP8",
    "float4e2m1": "FP4",
    "bfloat16": "BF16",
    "float16": "HALF",
    "float32": "FLOAT",
}
LAYERS = {
    "TRT_FP4DynamicQuantize": "add_dynamic_quantize",
    "TRT_DynamicQuantize": "add_dynamic_quantize_v2",
    "Attention": "add_attention",
    "RotaryEmbedding": "add_rotary_embedding",
    "TRT_Attention": "add_attention_v2",
    "TRT_MXFP8QuantizeLinear": "E8M0",
}
"""Operators of the parser that need a layer or a type of their own."""


@pytest.mark.parametrize("release", [JETPACK, *TENSORRT], ids=lambda release: release.folder)
def test_the_python_package_of_a_release_has_the_types_and_layers_of_its_target(release: Release):
    stub, target = stub_text(release), targets.get(targets.of_release("tensorrt", release.version))
    members = set(re.findall(r"^    (\w+): ClassVar\[DataType\]", stub, re.MULTILINE))
    known = members | set(re.findall(r"def (add_\w+)\(", stub))

    assert target.id == f"tensorrt-{'.'.join(release.version.split('.')[:2])}"
    assert {name for name, member in TYPES.items() if member in members} == (
        target.quantize_types | target.data_types
    ) - {"float64"}
    assert {name for name, layer in LAYERS.items() if layer not in known} == LAYERS.keys() & target.later.keys()
    # A network can be strongly typed in every release; version 11 has no other networks.
    assert "STRONGLY_TYPED: ClassVar" in stub


def test_jetpack_6_lacks_what_its_users_meet():
    target = targets.get("tensorrt-10.3")

    assert target.quantize_types == {"int8", "int4", "float8e4m3fn"}
    assert (target.default_axis, target.uint8_as_int8, target.even_last_dimension) == (0, False, True)
    assert {"STFT", "HannWindow", "DequantizeLinear.output_dtype", "Attention"} <= target.later.keys()
    assert "DeformConv" not in target.later


def test_the_page_about_jetson_has_the_types_of_each_gpu():
    page = (ROOT / "docs" / "how-to" / "jetson.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+\.\d) \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    tensorrt, rtx = targets.get("tensorrt"), targets.get("tensorrt-rtx")

    assert {int(number.replace(".", "")): name for number, name, _ in rows} == ENTERPRISE | {120: "GeForce RTX 50"}
    for number, _, told in rows:
        gpu = int(number.replace(".", ""))
        kinds = ("int8", "int4", "float8e4m3fn", "float4e2m1")
        able = [*(gpu >= tensorrt.min_compute_capability[kind] for kind in kinds), rtx.buildable(gpu) is None]
        assert told.split(" | ") == ["yes" if each else "no" for each in able]
