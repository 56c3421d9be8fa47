"""Q and DQ nodes of constants run alone: which they are, what they give, and what is too large to run."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.qdq import constant, text_model

from qdqtool.accuracy.checking import qdq_reference
from qdqtool.accuracy.checking.qdq_reference import ConstantNodes
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model

T = TensorProto
W = np.float32([[0.6, -1.2], [3.4, 100.0]])

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
    codes = np.clip(np.rint(W / 0.5) + 1, low, high)
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
