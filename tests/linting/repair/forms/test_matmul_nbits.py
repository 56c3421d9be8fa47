"""MatMulNBits becomes MatMul of a DQ with exactly the weights that its packed codes mean, or stays as it is."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

ROWS = 6
"""N of the models: the outputs."""


def packed(codes: np.ndarray, bits: int, whole: int) -> np.ndarray:
    """Pack codes as ONNX Runtime's documentation says: along the last axis, the first code in the low bits."""
    per_byte = 8 // bits
    filled = np.zeros((*codes.shape[:-1], whole), np.int64)
    filled[..., : codes.shape[-1]] = codes
    found = np.zeros((*codes.shape[:-1], whole // per_byte), np.uint8)
    for index in range(whole):
        found[..., index // per_byte] |= (filled[..., index] << (bits * (index % per_byte))).astype(np.uint8)
    return found


class Sample:
    """A model of one MatMulNBits with random codes, and the weights that they mean."""

    def __init__(
        self,
        *,
        bits: int = 4,
        columns: int = 64,
        size: int = 32,
        zeros: str | int = "none",
        opset: int = 21,
        dtype: type = np.float32,
        flat: bool = False,
        bias: bool = False,
        order: np.ndarray | None = None,
        **attributes: int,
    ) -> None:
        rng = np.random.default_rng(bits + columns + size)
        blocks = -(-columns // size)
        codes = rng.integers(0, 2**bits, (ROWS, columns))
        scale = rng.uniform(0.01, 0.1, (ROWS, blocks)).astype(dtype)
        zero = np.full((ROWS, blocks), 2 ** (bits - 1), np.float64)
        if zeros != "none":
            zero = rng.integers(0, 2**bits, (ROWS, blocks)).astype(np.float64) if isinstance(zeros, str) else zero * 0
            zero += zeros if isinstance(zeros, int) else 0.0
        filled = np.concatenate([codes, np.zeros((ROWS, blocks * size - columns), np.int64)], axis=1)
        inputs = {
            "b": packed(filled, bits, blocks * size).reshape(ROWS, blocks, -1),
            "s": scale.reshape(-1) if flat else scale,
            "z": None,
            "g": order,
            "bias": rng.normal(size=ROWS).astype(dtype) if bias else None,
        }
        if zeros == "float":
            inputs["z"] = zero.astype(dtype)
        elif zeros == "fraction":
            inputs["z"] = (zero + 0.25).astype(dtype)
        elif zeros != "none":
            inputs["z"] = packed(zero.astype(np.int64), bits, -(-blocks * bits // 8) * 8 // bits)
            inputs["z"] = inputs["z"].reshape(-1) if flat else inputs["z"]
        spread = np.repeat(np.stack([scale.astype(np.float64), zero]), size, axis=2)[:, :, :columns]
        self.weights = ((codes - spread[1]) * spread[0]).T
        self.proto = self._model(inputs, columns, opset, dtype, {"bits": bits, "block_size": size} | attributes)
        self.x = rng.normal(size=(3, columns)).astype(dtype)

    @staticmethod
    def _model(inputs: dict, columns: int, opset: int, dtype: type, attributes: dict[str, int]) -> onnx.ModelProto:
        names = ["x", *(name if array is not None else "" for name, array in inputs.items())]
        while not names[-1]:
            names.pop()
        given = {"K": columns, "N": ROWS} | attributes
        node = helper.make_node("MatMulNBits", names, ["y"], "product", domain="com.microsoft", **given)
        onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", onnx_type, [3, columns])],
            [helper.make_tensor_value_info("y", onnx_type, [3, ROWS])],
            [numpy_helper.from_array(array, name) for name, array in inputs.items() if array is not None],
        )
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def normalized(self, tmp_path) -> tuple[onnx.ModelProto, Repaired]:
        found = normalized_model(Model(self.proto), DataRequest(samples=3))
        save_model(found.model, tmp_path / "m.onnx")
        return onnx.load(tmp_path / "m.onnx"), found.report


def dequantized(proto: onnx.ModelProto) -> tuple[np.ndarray, str, list[int]]:
    """The weights that the DQ makes by ONNX's formula, in float64, with the type of the codes and axis and block."""
    (node,) = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"]
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    codes, scale, *zero = (numpy_helper.to_array(tensors[name]).astype(np.float64) for name in node.input)
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    if "block_size" in attributes:
        scale, *zero = (np.repeat(each, attributes["block_size"], axis=0)[: len(codes)] for each in (scale, *zero))
    real = (codes - (zero[0] if zero else 0)) * scale
    name = TensorProto.DataType.Name(tensors[node.input[0]].data_type).lower()
    return real, name, [attributes["axis"], attributes.get("block_size", 0)]


@pytest.mark.parametrize(
    ("given", "kind", "place"),
    [
        ({}, "int4", [0, 32]),
        ({"bits": 2}, "int4", [0, 32]),
        ({"bits": 2, "zeros": "packed"}, "int4", [0, 32]),
        ({"bits": 8}, "int8", [0, 32]),
        ({"zeros": "packed"}, "int8", [0, 32]),
        ({"zeros": "float"}, "int8", [0, 32]),
        ({"zeros": 8}, "int4", [0, 32]),
        ({"bits": 8, "zeros": "packed"}, "uint8", [0, 32]),
        ({"bits": 8, "zeros": 128}, "int8", [0, 32]),
        ({"size": 16, "columns": 48, "zeros": "packed", "flat": True}, "int8", [0, 16]),
        ({"columns": 48}, "int4", [0, 16]),
        ({"columns": 48, "zeros": "packed"}, "int8", [0, 16]),
        ({"columns": 33, "bits": 8}, "int8", [0, 32]),
        ({"columns": 32}, "int4", [1, 0]),
        ({"columns": 24, "zeros": "packed"}, "int8", [1, 0]),
        ({"opset": 17}, "int4", [0, 32]),
        ({"bias": True}, "int4", [0, 32]),
        ({"order": np.repeat(np.int32([0, 1]), 32)}, "int4", [0, 32]),
        ({"accuracy_level": 4}, "int4", [0, 32]),
    ],
    ids=str,
)
def test_the_weights_are_those_of_the_packed_codes(given: dict, kind: str, place: list[int], tmp_path):
    sample = Sample(**given)
    after, done = sample.normalized(tmp_path)

    assert len(done.changes) == 1
    weights, found, where = dequantized(after)
    assert np.array_equal(weights, sample.weights)
    assert (found, where) == (kind, place)
    product = next(node for node in after.graph.node if node.op_type == "MatMul")
    assert (product.name, product.domain, product.input[0], len(product.attribute)) == ("product", "", "x", 0)
    before, now = run(sample.proto, {"x": sample.x})[0], run(after, {"x": sample.x})[0]
    limit = 0.02 if "accuracy_level" in given else 1e-6
    assert np.abs(before - now).max() < limit * np.abs(before).max()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_types_and_opset_are_those_that_the_dq_needs(dtype: type, tmp_path):
    after, _ = Sample(dtype=dtype, opset=17).normalized(tmp_path)

    assert {entry.domain: entry.version for entry in after.opset_import}[""] == 21
    scale = next(tensor for tensor in after.graph.initializer if tensor.name.endswith("scale"))
    assert numpy_helper.to_array(scale).dtype == dtype
    onnx.checker.check_model(after, full_check=True)


def test_one_scale_for_each_channel_of_int8_needs_no_new_opset(tmp_path):
    after, _ = Sample(bits=8, columns=32, opset=17).normalized(tmp_path)
    assert {entry.domain: entry.version for entry in after.opset_import}[""] == 17


def test_the_description_names_the_codes(tmp_path):
    def words(**given: object) -> str:
        return Sample(**given).normalized(tmp_path)[1].changes[0].description  # type: ignore[arg-type]

    made = "writes MatMulNBits as MatMul of a DQ of {} with the same weights"
    assert words() == made.format("int4 codes in blocks of 32")
    assert words(zeros="packed") == made.format("int8 codes in blocks of 32")
    assert words(columns=32) == made.format("int4 codes with a scale for each channel")
    assert words(accuracy_level=4).endswith(
        "; ONNX Runtime rounds its activations to int8 (accuracy_level 4), MatMul does not"
    )


def test_a_model_that_does_not_import_the_domain_is_rewritten(tmp_path):
    """onnx-neural-compressor 1.0 writes such models, and ONNX Runtime runs them."""
    sample = Sample(opset=17)
    del sample.proto.opset_import[1]

    after, done = sample.normalized(tmp_path)
    assert len(done.changes) == 1
    assert np.array_equal(dequantized(after)[0], sample.weights)


def without(name: str):
    def damage(proto: onnx.ModelProto) -> None:
        (stored,) = [tensor for tensor in proto.graph.initializer if tensor.name == name]
        proto.graph.initializer.remove(stored)
        info = helper.make_tensor_value_info(name, stored.data_type, stored.dims)
        proto.graph.input.append(info)

    return damage


def attribute(name: str, value: object):
    def damage(proto: onnx.ModelProto) -> None:
        (node,) = proto.graph.node
        kept = [each for each in node.attribute if each.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, *([helper.make_attribute(name, value)] if value is not None else [])])

    return damage


def stored(name: str, array: np.ndarray):
    def damage(proto: onnx.ModelProto) -> None:
        (tensor,) = [tensor for tensor in proto.graph.initializer if tensor.name == name]
        tensor.CopyFrom(numpy_helper.from_array(array, name))

    return damage


def inputs(*names: str):
    def damage(proto: onnx.ModelProto) -> None:
        del proto.graph.node[0].input[:]
        proto.graph.node[0].input.extend(names)

    return damage


def stored_zero(value: float):
    def damage(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].input.append("z")
        proto.graph.initializer.append(numpy_helper.from_array(np.full((ROWS, 2), value, np.float32), "z"))

    return damage


SHAPES = "the shape of its weights does not fit K, N, bits and block_size"


@pytest.mark.parametrize(
    ("given", "damage", "reason"),
    [
        ({"order": np.arange(64, dtype=np.int32) % 2}, None, "its g_idx assigns weights to blocks out of order"),
        ({"order": np.zeros(3, np.int32)}, None, "its g_idx assigns weights to blocks out of order"),
        ({"zeros": "fraction"}, None, "its zero points must be 8-bit integers"),
        ({}, stored_zero(np.nan), "its zero points must be 8-bit integers"),
        ({}, stored_zero(1e9), "its zero points must be 8-bit integers"),
        ({"bits": 8}, stored_zero(-1), "its codes minus its zero points fit no 8-bit type"),
        ({}, without("b"), "its weights are not stored as codes"),
        ({}, without("s"), "its scales must be constant floats"),
        ({"zeros": "packed"}, without("z"), "its zero points are not constant"),
        ({}, attribute("bits", 3), "it has 3 bits; expected 2, 4 or 8"),
        ({}, attribute("K", None), "its K, N and block_size must be positive"),
        ({}, attribute("block_size", 0), "its K, N and block_size must be positive"),
        ({}, attribute("K", 640), SHAPES),
        ({}, attribute("N", "six"), "its bits, block_size, K and N must be integers"),
        ({}, stored("b", np.zeros((6, 2, 8), np.uint8)), SHAPES),
        ({}, stored("b", np.zeros((6, 2, 16), np.int8)), "its weights are not stored as codes"),
        ({}, stored("s", np.zeros(5, np.float32)), "it has 5 scales; expected 12"),
        ({}, stored("s", np.zeros(12, np.int32)), "its scales must be constant floats"),
        ({}, stored("s", np.zeros(12, ml_dtypes.bfloat16)), "its data and its scales have different types"),
        ({"zeros": "packed"}, stored("z", np.zeros(7, np.uint8)), "it has 7 bytes of zero points; expected 6"),
        ({}, inputs("x"), "its weights are not stored as codes"),
        ({}, inputs(), "its weights are not stored as codes"),
    ],
)
def test_what_no_dq_makes_stays_with_a_reason(given: dict, damage, reason: str):
    proto = Sample(**given).proto
    if damage is not None:
        damage(proto)

    found = normalized_model(Model(proto), DataRequest(samples=2))
    assert not found.report.changes
    assert [refused.reason.startswith(reason) for refused in found.report.refused] == [True], found.report.refused
    assert found.model.proto == proto


def test_an_operator_of_that_name_in_another_domain_stays():
    proto = Sample().proto
    proto.graph.node[0].domain = "local"
    assert not normalized_model(Model(proto), DataRequest(samples=2)).report.refused
