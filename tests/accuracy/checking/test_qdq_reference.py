"""Check on models that ONNX Runtime cannot run alone: the same gates, and who evaluated what."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import constant, pair_model, text_model
from support.small import conv_model, make_model

from qdqtool.accuracy.checking import qdq_reference
from qdqtool.accuracy.checking.qdq_reference import ConstantNodes, NodeCheck, compare, differing, qdq_count
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.running.ort_cpu_faults import F32_DIVISION, WRAP
from qdqtool.numerics import formats
from qdqtool.samples.request import DataRequest

T = TensorProto
LONG = DataRequest(input_shapes={"x": (4000,)}, samples=2)
W = np.random.default_rng(1).uniform(-1, 1, (64, 32)).astype(np.float32)
NVFP4 = {"format": "float4e2m1", "block_size": 16, "scale_format": "float8e4m3fn", "scale_scale": 0.002, "scale": 0.2}
MXFP8 = {"format": "float8e4m3fn", "block_size": 32, "scale_format": "float8e8m0", "scale": 2.0**-8}


def float_model(elem_type: int = T.FLOAT) -> onnx.ModelProto:
    w = W.astype(helper.tensor_dtype_to_np_dtype(elem_type))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="matmul"), helper.make_node("Relu", ["m"], ["y"])]
    return make_model(nodes, {"x": (2, 64)}, {"y": (2, 32)}, {"w": w}, elem_type=elem_type)


def inserted(folder: Path, model: onnx.ModelProto, *entries: dict[str, Any]) -> Path:
    onnx.save(model, folder / "float.onnx")
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": list(entries)}))
    insert_plan(folder / "float.onnx", folder / "p.json", folder / "q.onnx")
    return folder / "q.onnx"


@pytest.mark.parametrize("elem_type", [T.FLOAT, T.FLOAT16, T.BFLOAT16])
@pytest.mark.parametrize("keys", [NVFP4, MXFP8], ids=["nvfp4", "mxfp8"])
def test_inserted_two_level_models_are_checked_against_their_baseline(
    tmp_path: Path, keys: dict[str, Any], elem_type: int
) -> None:
    path = inserted(tmp_path, float_model(elem_type), {"tensor": "w", "axis": 0, **keys})
    report = check_model(path, baseline=tmp_path / "float.onnx")
    assert report.passed, report.failures
    assert report.reference.path == "onnxruntime+qdqtool"
    in_ort = "scale_scale" in keys and elem_type != T.BFLOAT16
    total = 1 + ("scale_scale" in keys)
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (total, int(in_ort), total - in_ort)
    assert report.not_observed == ()
    (weight,) = [found for found in report.boundaries if found.tensor == "w"]
    assert 0.4 < weight.max_steps <= 0.51
    assert report.outputs[0].sqnr_db is not None
    assert 10 < report.outputs[0].sqnr_db < 50
    by = {(node.evaluated_by, node.type) for node in report.evaluated}
    halves = {T.FLOAT16: "float16", T.BFLOAT16: "bfloat16"}
    assert by == {("qdqtool", ""), *([("onnxruntime-float32", halves[elem_type])] if elem_type in halves else [])}


def test_int8_nodes_beside_fp4_are_still_compared_with_onnxruntime(tmp_path: Path) -> None:
    path = inserted(
        tmp_path, float_model(), {"tensor": "w", "axis": 0, **NVFP4}, {"tensor": "x", "format": "int8", "scale": 0.03}
    )
    report = check_model(path)
    assert report.passed, report.failures
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (4, 3, 1)
    (gate,) = [gate for gate in report.gates if gate.name == "own-core"]
    assert gate.detail == "3 of 4 agree, 1 evaluated by our own core alone (refused by ONNX Runtime)"


@pytest.mark.parametrize("quantized", [T.FLOAT4E2M1, T.FLOAT6E2M3, T.INT8])
@pytest.mark.parametrize("float_type", [T.FLOAT, T.BFLOAT16])
def test_a_dq_that_does_not_undo_its_q_fails(quantized: int, float_type: int) -> None:
    good, bad = (pair_model(quantized, float_type=float_type, scale=0.5) for _ in range(2))
    bad.proto.graph.initializer.append(constant("by_hand", 0.53125, float_type))
    bad.proto.graph.node[1].input[1] = "by_hand"
    for model in (good, bad):
        model.proto.opset_import[0].version = 28
        report = check_model(model, data=LONG)
        assert report.passed is (model is good)
        assert report.qdq.own == 2
    assert "'dequant' does not undo 'quant'" in report.failures[0]


@pytest.mark.parametrize(("scale", "faults"), [(0.1, []), (np.linspace(0.06, 0.11, 64), [F32_DIVISION])])
def test_pairs_of_bfloat16_in_a_branch_run_in_float32_and_are_checked(scale: Any, faults: list[str]) -> None:
    model = text_model(
        """
        <ir_version: 11, opset_import: ["": 23]>
        g (bfloat16[2,64] x) => (bfloat16[2,64] y) <bool c = {1}>
        {
          p = If (c) <
            then_branch = tb () => (bfloat16[2,64] o) { q = QuantizeLinear (x, s) o = DequantizeLinear (q, s) },
            else_branch = eb () => (bfloat16[2,64] o) { o = Neg (x) }
          >
          y = Relu (p)
        }
        """,
        constant("s", scale, T.BFLOAT16),
    )
    model.proto.graph.node[0].attribute[0].g.node[0].attribute.append(helper.make_attribute("output_dtype", T.INT8))
    report = check_model(model)
    assert report.passed, report.failures
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (2, 2, 0)
    assert [fault.fault for fault in report.known_faults] == faults
    assert [node.graph for node in report.evaluated] == ["", "p.then_branch", "p.then_branch", "p.else_branch"]


def test_a_nan_behind_the_cut_is_found(tmp_path: Path) -> None:
    path = inserted(tmp_path, float_model(), {"tensor": "w", "axis": 0, **NVFP4})
    model = onnx.load(path)
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type, relu.name = "Log", "the_log"
    report = check_model(Model(model))
    assert not report.passed
    assert "the_log" in report.failures[0]


def test_a_newer_stamp_changes_no_number() -> None:
    model = Model(conv_model(opset=21, ir_version=10))
    newer = Model(conv_model(opset=27, ir_version=13))
    report = check_model(newer, baseline=model)
    assert report.passed
    assert report.outputs[0].exact
    assert report.evaluated == ()


# --- one node at a time, on results that are given ---


class Node:
    """A Q or a DQ of a pair and what its tensors hold."""

    def __init__(
        self, kind: str, *, second: bool, scale: object = 0.5, zero: int = 0, float_type: int = T.FLOAT
    ) -> None:
        self.fmt = formats.get(kind)
        model = pair_model(self.fmt.onnx_type, float_type=float_type)
        quantize, dequantize = ModelIndex.of(model).qdq.nodes
        self.quantizer = quantize if second else None
        self.check = NodeCheck(dequantize if second else quantize)
        kind_of_scale = helper.tensor_dtype_to_np_dtype(float_type)
        self.held = {
            quantize.scale: np.asarray(scale, kind_of_scale),
            quantize.zero_point: np.full(np.shape(scale), zero, self.fmt.dtype),
        }

    def compare(self, data: object, actual: np.ndarray) -> NodeCheck:
        entry = self.check.entry
        values = self.held | {entry.data: np.asarray(data)}
        compare(self.check, actual, values.get, self.quantizer)
        return self.check


X = np.float32([0.0, 1.0, -2.0, 300.0])


@pytest.mark.parametrize("block_size", [2, 4])
def test_blocks_of_data_with_one_axis_are_checked_as_onnxruntime_computes_them(block_size: int) -> None:
    blocks = 8 // block_size
    model = text_model(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[8] x) => (float[8] y) <float[{blocks}] s = {{{",".join(map(str, range(1, blocks + 1)))}}}> {{
            q = QuantizeLinear <axis = 0, block_size = {block_size}, output_dtype = 3> (x, s)
            y = DequantizeLinear <axis = 0, block_size = {block_size}> (q, s)
        }}"""
    )
    report = check_model(model)
    assert report.passed
    assert (report.qdq.checked, report.differences) == (2, ())


def test_codes_of_a_q_are_counted_where_they_differ() -> None:
    check = Node("int8", second=False).compare(X, np.int8([0, 2, -1, 124]))
    assert (check.elements, check.different, check.max_steps) == (4, 2, 3)
    assert check.example == "at [2] the reference has -1, and qdqtool computes -4"
    assert (check.was_checked, check.problem) == (True, "it did not run on this data")


def test_the_first_difference_and_the_largest_of_all_samples_are_kept() -> None:
    node = Node("uint8", second=False, zero=3)
    node.compare(X, np.uint8([3, 5, 0, 255]))
    assert (node.check.elements, node.check.different, node.check.example) == (4, 0, "")
    for actual in ([3, 9, 0, 255], [3, 5, 1, 254], [3, 5, 0, 255]):
        node.compare(X, np.uint8(actual))
    assert (node.check.elements, node.check.different, node.check.max_steps) == (16, 3, 4)
    assert node.check.example == "at [1] the reference has 9, and qdqtool computes 5"
    told = asdict(node.check.difference())
    assert told == {
        "node": "quant",
        "graph": "",
        "op_type": "QuantizeLinear",
        "different": 3,
        "elements": 16,
        "max_steps": 4,
        "example": "at [1] the reference has 9, and qdqtool computes 5",
    }


def test_a_dq_is_counted_in_multiples_of_its_scale_and_negative_zero_is_not_zero() -> None:
    check = Node("int8", second=True).compare(np.int8([0, 2, -4]), np.float32([-0.0, 1.0, -0.5]))
    assert (check.elements, check.different, check.max_steps) == (3, 2, 3)
    assert check.example == "at [0] the reference has -0.0, and qdqtool computes 0.0"
    assert (check.pair_different, check.pair_example) == (2, "at [0] it gives -0.0, the Q's own constants give 0.0")


def test_a_difference_that_is_no_number_has_no_steps() -> None:
    check = Node("int8", second=True).compare(np.int8([1, 2]), np.float32([np.nan, 1.5]))
    assert (check.different, check.max_steps) == (2, 1)
    check = Node("int8", second=True, scale=np.nan).compare(np.int8([1, 2]), np.float32([np.nan, np.nan]))
    assert (check.elements, check.different) == (2, 0)


def test_a_node_that_our_core_evaluated_is_compared_with_the_constants_of_its_q_alone() -> None:
    for second, found in ((True, (2, 0, 1)), (False, (2, 0, 0))):
        node = Node("int8", second=second)
        node.check.own = "bfloat16"
        data = np.int8([1, 2]) if second else X[:2]
        check = node.compare(data, np.float32([0.5, 3.0]))
        assert (check.elements, check.different, check.pair_different) == found


def test_what_our_core_refuses_differs_in_every_element() -> None:
    node = Node("int8", second=False, scale=[0.5, 0.5, 0.5])
    for _ in range(2):
        node.compare(X, np.int8([0, 2, -4, 127]))
    assert (node.check.elements, node.check.different) == (8, 8)
    assert node.check.example.startswith("qdqtool refuses what ONNX Runtime accepts: ")
    assert node.check.was_checked


def test_the_first_difference_is_kept_where_our_core_refuses_a_later_sample() -> None:
    node = Node("int8", second=False)
    node.compare(X, np.int8([1, 2, -4, 127]))
    scale = node.check.entry.scale
    node.held[scale] = np.float32([[0.5], [0.5]])
    node.compare(X, np.int8([0, 2, -4, 127]))
    assert (node.check.elements, node.check.different) == (8, 5)
    assert node.check.example == "at [0] the reference has 1, and qdqtool computes 0"


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize("position", [0, 1])
def test_a_node_without_data_or_scale_differs_in_every_element(position: int, absent: int) -> None:
    model = pair_model(T.INT8)
    model.proto.graph.node[position].input[absent] = ""
    entry = ModelIndex.of(model).qdq.nodes[position]
    held = {value: np.int8([1, 2]) if value is entry.data else np.float32(1) for value in (entry.data, entry.scale)}
    check = NodeCheck(entry)
    compare(check, np.int8([1, 2]), (held | {entry.zero_point: np.int8(0)}).get, None)
    assert (check.elements, check.different) == (2, 2)
    assert check.example == "qdqtool refuses what ONNX Runtime accepts: data or scale is absent"


@pytest.mark.parametrize("read", [0, 1, 2])
def test_one_input_that_could_not_be_read_leaves_the_node_unchecked(read: int) -> None:
    node = Node("int8", second=False)
    entry = node.check.entry
    held = {entry.data: X, **node.held}
    del held[(entry.data, entry.scale, entry.zero_point)[read]]
    compare(node.check, np.int8([0, 2, -4, 127]), held.get, None)
    assert (node.check.was_checked, node.check.problem) == (False, "one of its inputs could not be observed")


@pytest.mark.parametrize("kind", [T.INT32, T.FLOAT, T.INT64])
def test_a_q_to_a_type_that_nothing_is_quantized_to_says_so(kind: int) -> None:
    entry = ModelIndex.of(pair_model(kind)).qdq.nodes[0]
    check, zero = NodeCheck(entry), np.zeros((), helper.tensor_dtype_to_np_dtype(kind))
    compare(check, X, {entry.data: X, entry.scale: np.float32(1), entry.zero_point: zero}.get, None)
    assert (check.was_checked, check.problem) == (False, f"qdqtool cannot evaluate its quantized type {kind}")


@pytest.mark.parametrize("has_q", [True, False])
def test_a_dq_without_a_q_or_whose_q_has_no_scale_is_compared_alone(has_q: bool) -> None:
    model = pair_model(T.INT8)
    model.proto.graph.node[0].input[1] = ""
    quantize, dequantize = ModelIndex.of(model).qdq.nodes
    check = NodeCheck(dequantize)
    held = {dequantize.data: np.int8([2]), dequantize.scale: np.float32(0.5), dequantize.zero_point: np.int8(0)}
    compare(check, np.float32([7.0]), held.get, quantize if has_q else None)
    assert (check.different, check.max_steps, check.pair_different, check.pair_example) == (1, 12, 0, "")


def test_less_than_a_step_is_told_as_less_than_a_step() -> None:
    check = Node("int8", second=True).compare(np.int8([0, 2]), np.float32([0.0, 1.25]))
    assert (check.different, check.max_steps) == (1, 0.5)
    assert Node("int8", second=True).compare(np.int8([0]), np.float32([0.0])).max_steps == 0


def test_the_first_difference_of_a_pair_is_kept() -> None:
    node = Node("int8", second=True)
    for actual in ([0.5, 1.0], [0.5, 3.0], [5.0, 1.0]):
        node.compare(np.int8([1, 2]), np.float32(actual))
    assert node.check.pair_different == 2
    assert node.check.pair_example == "at [1] it gives 3.0, the Q's own constants give 1.0"


@pytest.mark.parametrize("wide", [False, True])
def test_a_dq_of_another_float_type_than_its_q_is_compared_in_its_own(wide: bool) -> None:
    """Observed values of bfloat16 are widened to float32, of which they use the upper half alone."""
    model = pair_model(T.INT8)
    model.proto.graph.initializer.append(constant("other", 0.1, T.BFLOAT16))
    first, second = ("other", "s") if wide else ("s", "other")
    for node, scale in zip(model.proto.graph.node, (first, second), strict=True):
        node.input[1] = scale
    quantize, dequantize = ModelIndex.of(model).qdq.nodes
    narrow = np.array(0.1, ml_dtypes.bfloat16)
    scales = {name: narrow if name == "other" else narrow.astype(np.float32) for name in ("s", "other")}
    codes, zero = np.arange(-128, 128).astype(np.int8), np.int8(0)
    exact = codes.astype(np.float32) * narrow.astype(np.float32)
    actual = exact if wide else exact.astype(ml_dtypes.bfloat16).astype(np.float32)
    held = {quantize.scale: scales[first], dequantize.scale: scales[second]}
    held |= {dequantize.data: codes, quantize.zero_point: zero}
    check = NodeCheck(dequantize, own="bfloat16")
    compare(check, actual, held.get, quantize)
    assert (check.elements, check.pair_different, check.pair_example) == (256, 0, "")
    compare(check, actual * np.float32(1.5), held.get, quantize)
    assert check.pair_different == 255


def test_elements_in_which_onnxruntime_is_known_to_be_wrong_are_left_out() -> None:
    """It wraps infinities of float16 data through a 32-bit integer."""
    node = Node("int8", second=False, float_type=T.FLOAT16)
    check = node.compare(np.float16([np.inf, 1.0]), np.int8([-128, 3]))
    assert (check.elements, check.different, check.max_steps) == (2, 1, 1)
    assert dict(check.faults) == {WRAP: 1}
    node.compare(np.float16([np.inf, np.inf]), np.int8([-128, 127]))
    assert (check.different, dict(check.faults)) == (1, {WRAP: 3})


def test_a_q_of_fp8_that_does_not_saturate_is_compared_so() -> None:
    node = Node("float8e4m3fn", second=False, scale=1.0)
    x, codes = np.float32([1000.0, 1.0]), formats.get("float8e4m3fn").dtype
    assert node.compare(x, np.array([448, 1], np.float32).astype(codes)).different == 0
    node.check.entry.node.proto.attribute.append(helper.make_attribute("saturate", 0))
    assert node.compare(x, np.array([np.nan, 1], np.float32).astype(codes)).different == 0
    assert node.compare(x, np.array([448, 1], np.float32).astype(codes)).different == 1


@pytest.mark.parametrize(
    ("left", "right", "unequal"),
    [
        (np.float32([0.0, 1, np.nan, np.nan]), np.float32([-0.0, 1, 1, -np.nan]), [True, False, True, False]),
        (np.int8([1, -1]), np.int8([1, 1]), [False, True]),
        (np.array([True, False]), np.array([True, True]), [False, True]),
        (np.uint8([255]), np.uint8([254]), [True]),
        (np.float16([[1, 2], [3, np.inf]]), np.float16([[1, 2], [3, -np.inf]]), [[False, False], [False, True]]),
    ],
)
def test_arrays_differ_in_bits_and_nan_equals_nan(left: np.ndarray, right: np.ndarray, unequal: list) -> None:
    assert differing(left, right).tolist() == unequal
    assert differing(left.T, right.T).T.tolist() == unequal
    assert not differing(left, left).any()


def test_nodes_are_counted_by_what_evaluated_them() -> None:
    entry = Node("int8", second=False).check.entry
    checks = [
        NodeCheck(entry),
        NodeCheck(entry, own="why"),
        NodeCheck(entry, elements=2),
        NodeCheck(entry, different=1),
    ]
    count = qdq_count([*checks, NodeCheck(entry, elements=3, own="why")])
    assert (count.total, count.checked, count.own) == (5, 2, 1)


WEIGHT = np.float32([[0.6, -1.2], [3.4, 100.0]])

MIXED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,2] x, float t) => (float[2,2] y)
<float[2,2] w = {0.6, -1.2, 3.4, 100.0}, float s = {0.5}, float r = {2.0}, int8 z = {1}, int8[2,2] codes = {1, 2, 3, 4}>
{
  wq = QuantizeLinear (w, s, z)
  wd = DequantizeLinear (wq, s, z)
  other = DequantizeLinear (wq, r, z)
  moving = DequantizeLinear (wq, t, z)
  cd = DequantizeLinear (codes, r)
  xq = QuantizeLinear (x, s, z)
  xd = DequantizeLinear (xq, s, z)
  nq = QuantizeLinear (w, t, z)
  nd = DequantizeLinear (nq, s, z)
  y = Sum (wd, other, moving, cd, xd, nd)
}
"""
CODES = np.int8([[2, -1], [8, 127]])  # 0.6 / 0.5 = 1.2; -1.2 / 0.5 = -2.4; 3.4 / 0.5 = 6.8; and 1 is zero
EXPECTED = {"wq": CODES, "wd": (CODES - 1.0) * 0.5, "other": (CODES - 1.0) * 2, "cd": [[2, 4], [6, 8]]}


def of(model: Model) -> tuple[ModelIndex, ConstantNodes]:
    index = ModelIndex.of(model)
    return index, ConstantNodes(index, index.qdq.nodes)


def results(model: Model) -> list[tuple[str, dict[str, np.ndarray], np.ndarray | None]]:
    _, nodes = of(model)
    return [
        (entry.node.proto.output[0], {value.name: array for value, array in inputs.items()}, result)
        for entry, inputs, result in nodes.results()
    ]


def names_in(model: Model) -> list[str]:
    index, nodes = of(model)
    return [entry.node.proto.output[0] for entry in index.qdq.nodes if entry in nodes]


def test_nodes_whose_inputs_never_change_are_run_alone_and_each_once() -> None:
    found = results(text_model(MIXED))
    assert names_in(text_model(MIXED)) == [name for name, _, _ in found] == list(EXPECTED)
    for name, _, result in found:
        assert result.tolist() == np.asarray(EXPECTED[name]).tolist()
    assert {name: sorted(inputs) for name, inputs, _ in found} == {
        "wq": ["s", "w", "z"],
        "wd": ["s", "w", "wq", "z"],
        "other": ["r", "s", "w", "wq", "z"],
        "cd": ["codes", "r"],
    }
    assert all(np.array_equal(inputs["wq"], CODES) for _, inputs, _ in found if "wq" in inputs)


@pytest.mark.parametrize(("node", "others"), [(0, ["cd"]), (4, ["wq", "wd", "other"])])
@pytest.mark.parametrize("side", ["input", "output"])
def test_a_node_without_data_or_without_a_name_for_its_result_is_not_run(
    node: int, others: list[str], side: str
) -> None:
    model = text_model(MIXED)
    getattr(model.proto.graph.node[node], side)[0] = ""
    assert names_in(model) == others
    assert [name for name, _, _ in results(model)] == others


def test_a_q_to_an_unknown_type_has_no_dq_behind_it() -> None:
    model = text_model(MIXED)
    model.proto.graph.initializer.append(constant("wrong", 0, T.FLOAT))
    model.proto.graph.node[0].input[2] = "wrong"
    assert names_in(model) == ["wq", "cd"]


@pytest.mark.parametrize(("kind", "low", "high"), [(T.INT4, -8, 7), (T.UINT4, 0, 15), (T.INT8, -128, 127)])
def test_codes_that_numpy_lacks_are_widened(kind: int, low: int, high: int) -> None:
    model = text_model(MIXED, constant("zero", 1, kind))
    for node in model.proto.graph.node[:3]:
        node.input[2] = "zero"
    del model.proto.graph.node[3]
    found = {name: result for name, _, result in results(model)}
    codes = np.clip(np.rint(WEIGHT / 0.5) + 1, low, high)
    for name, expected in (("wq", codes), ("wd", (codes - 1) * 0.5), ("other", (codes - 1) * 2)):
        assert np.asarray(found[name]).astype(np.float32).tolist() == expected.tolist()
        assert np.asarray(found[name]).dtype.kind in "iuf"


def test_nodes_of_microsoft_s_domain_are_run_too() -> None:
    model = text_model(MIXED.replace('"": 21', '"": 17, "com.microsoft": 1'))
    for node in model.proto.graph.node[:-1]:
        node.domain = "com.microsoft"
    del model.proto.graph.node[4]  # a DQ that has no zero point, which that domain's needs
    found = {name: result for name, _, result in results(model)}
    assert {name: np.asarray(result).tolist() for name, result in found.items()} == {
        name: np.asarray(EXPECTED[name]).tolist() for name in ("wq", "wd", "other")
    }


def too_large(model: Model, limit: int, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    monkeypatch.setattr(qdq_reference, "LARGEST_MODEL", limit)
    return [name for name, _, result in results(model) if result is None]


def test_constants_that_no_model_holds_are_told_and_the_rest_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """wq reads 4 floats, a scale and a code of zero; wd and other 4 codes, and the same; cd 4 codes and a scale."""
    model = text_model(MIXED)
    sizes = {21: [], 20: ["wq"], 8: ["wq"], 7: ["wq", "cd"]}
    assert {limit: too_large(model, limit, monkeypatch) for limit in sizes} == sizes
    # Nothing is known of what stands behind a node that was not run.
    assert [name for name, _, _ in results(model)] == ["wq", "cd"]


def test_a_model_leaves_a_mebibyte_of_two_gibibytes_for_what_is_no_tensor() -> None:
    assert qdq_reference.LARGEST_MODEL + 2**20 == 2**31


def test_the_model_of_one_node_is_of_the_opset_and_version_of_the_whole() -> None:
    model = text_model(MIXED.replace("<ir_version: 10", "<ir_version: 7").replace('"": 21', '"": 13'))
    onnx.checker.check_model(model.proto)
    assert [name for name, _, _ in results(model)] == list(EXPECTED)
