"""GatherBlockQuantized becomes Gather of a DQ with the same values, bit for bit, or stays as it is."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

INDICES = np.array([[1, 4], [-1, 0]])
BYTES = TensorProto.UINT8


def model(
    shape: tuple[int, ...],
    kind: int = BYTES,
    zeros: tuple[int, ...] | None = None,
    opset: int = 21,
    scales: tuple[int, ...] = (5, 2),
    dtype: type = np.float32,
    **attributes: int,
) -> onnx.ModelProto:
    """A model of one node with random codes, of a table of 5 embeddings of 64 numbers unless told otherwise."""
    rng = np.random.default_rng(1)
    low, high = {BYTES: (0, 256), TensorProto.UINT4: (0, 16), TensorProto.INT4: (-8, 8)}[kind]
    stored = [helper.make_tensor("w", kind, shape, rng.integers(low, high, shape).reshape(-1).tolist())]
    stored.append(numpy_helper.from_array(rng.uniform(0.01, 0.1, scales).astype(dtype), "s"))
    if zeros is not None:
        stored.append(helper.make_tensor("z", kind, zeros, rng.integers(low, high, zeros).reshape(-1).tolist()))
    names = ["w", "i", "s", *(["z"] if zeros is not None else [])]
    node = helper.make_node(
        "GatherBlockQuantized", names, ["y"], "embed", domain="com.microsoft", **{"block_size": 32} | attributes
    )
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 2])],
        [helper.make_tensor_value_info("y", onnx_type, [f"d{axis}" for axis in range(len(shape) + 1)])],
        stored,
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def normalized(proto: onnx.ModelProto, indices: np.ndarray, tmp_path) -> tuple[onnx.ModelProto, list[str]]:
    data = tmp_path / "data.npz"
    np.savez(data, i=np.stack([indices, indices[::-1]]))
    found = normalized_model(Model(proto), DataRequest(path=data))
    save_model(found.model, tmp_path / "m.onnx")
    assert not [refused.reason for refused in found.report.refused if refused.code == "gather-block-quantized"]
    return onnx.load(tmp_path / "m.onnx"), [change.description for change in found.report.changes]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shape": (5, 32)}, "int4 codes in blocks of 32"),
        ({"shape": (5, 16), "bits": 2}, "int4 codes in blocks of 32"),
        ({"shape": (5, 64), "bits": 8}, "int8 codes in blocks of 32"),
        ({"shape": (5, 32), "zeros": (5, 1)}, "int8 codes in blocks of 32"),
        ({"shape": (5, 64), "bits": 8, "zeros": (5, 2)}, "uint8 codes in blocks of 32"),
        ({"shape": (5, 64), "kind": TensorProto.INT4}, "int4 codes in blocks of 32"),
        ({"shape": (5, 64), "kind": TensorProto.INT4, "zeros": (5, 2)}, "int8 codes in blocks of 32"),
        ({"shape": (5, 64), "kind": TensorProto.UINT4}, "int8 codes in blocks of 32"),
        ({"shape": (5, 64), "kind": TensorProto.UINT4, "zeros": (5, 2)}, "int8 codes in blocks of 32"),
        (
            {"shape": (64, 5), "kind": TensorProto.INT4, "scales": (2, 5), "quantize_axis": 0, "gather_axis": 1},
            "int4 codes in blocks of 32",
        ),
        ({"shape": (2, 5, 32), "scales": (2, 5, 2), "quantize_axis": -1}, "int4 codes in blocks of 32"),
        ({"shape": (5, 24), "block_size": 16, "scales": (5, 3)}, "int4 codes in blocks of 16"),
        ({"shape": (5, 12), "block_size": 16, "scales": (5, 2)}, "int4 codes in blocks of 8"),
        ({"shape": (5, 16), "scales": (5, 1)}, "int4 codes with a scale for each channel"),
        ({"shape": (5, 16), "scales": (5, 1), "block_size": 2**40}, "int4 codes with a scale for each channel"),
        ({"shape": (5, 32), "opset": 17}, "int4 codes in blocks of 32"),
        ({"shape": (5, 32), "dtype": np.float16}, "int4 codes in blocks of 32"),
    ],
    ids=str,
)
def test_what_is_gathered_is_the_same(given: dict, words: str, tmp_path):
    before = model(**given)
    rows = given["shape"][given.get("gather_axis", 0)]
    indices = np.minimum(INDICES, rows - 1)
    after, descriptions = normalized(before, indices, tmp_path)

    assert descriptions == [f"writes GatherBlockQuantized as Gather of a DQ of {words} with the same values"]
    assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "Gather"]
    old, new = run(before, {"i": indices})[0], run(after, {"i": indices})[0]
    assert old.dtype == new.dtype
    assert np.array_equal(old, new)
    onnx.checker.check_model(after, full_check=True)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"shape": (5, 32), "bits": 3},
            "it has 3 bits in blocks of 32; expected 4 bits (in a uint8 table 2, 4 or 8) and 1 or more",
        ),
        ({"shape": (5, 64), "kind": TensorProto.INT4, "bits": 8}, "it has 8 bits in blocks of 32"),
        ({"shape": (5, 32), "block_size": 0}, "it has 4 bits in blocks of 0"),
        ({"shape": (5, 32), "quantize_axis": 0}, "its codes are packed along the last axis"),
        ({"shape": (5, 32), "quantize_axis": 2}, "its quantize_axis is not an axis of its table"),
        ({"shape": (5, 32), "gather_axis": -3}, "its gather_axis is not an axis of its table"),
        ({"shape": (5, 32), "scales": (5, 3)}, "it has 15 scales; expected 10"),
        ({"shape": (5, 32), "zeros": (5, 2)}, "it has 10 bytes of zero points; expected 5"),
        ({"shape": (5, 0), "scales": (5, 0)}, "its table is empty"),
    ],
    ids=str,
)
def test_what_no_dq_makes_stays_with_a_reason(given: dict, reason: str):
    proto = model(**given)
    found = normalized_model(Model(proto), DataRequest(samples=2))

    assert not found.report.changes
    assert [refused.reason[: len(reason)] for refused in found.report.refused] == [reason]
    assert found.model.proto == proto


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("w", "its weights are not stored as codes"),
        ("s", "its scales must be constant floats"),
        ("z", "its zero points are not constant"),
    ],
)
def test_what_is_computed_stays(name: str, reason: str):
    proto = model((5, 32), zeros=(5, 1))
    (stored,) = [tensor for tensor in proto.graph.initializer if tensor.name == name]
    proto.graph.initializer.remove(stored)
    proto.graph.input.append(helper.make_tensor_value_info(name, stored.data_type, stored.dims))

    found = normalized_model(Model(proto), DataRequest(samples=2))
    assert [refused.reason for refused in found.report.refused] == [reason]


def test_zero_points_of_another_type_stay():
    proto = model((5, 32), zeros=(5, 1))
    proto.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.full((5, 1), np.nan, np.float32), "z"))

    found = normalized_model(Model(proto), DataRequest(samples=2))
    assert [refused.reason for refused in found.report.refused] == ["its zero points have another type than its table"]
