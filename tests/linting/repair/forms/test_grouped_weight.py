"""Codes that are scaled in groups become a block DQ with the same bits, or stay as they are."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.linting.repair.report import Repaired
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

RNG = np.random.default_rng(2)
SCALES = RNG.uniform(0.01, 0.1, (4, 3, 1)).astype(np.float32)
ZEROS = np.float32(RNG.integers(-3, 8, (4, 3, 1)))
TORCHAO = (
    "r = Reshape (w, groups) k = Cast <to = 1> (r) a = Sub (k, z) m = Mul (a, s) j = Reshape (m, matrix)"
    " t = Transpose <perm = [1, 0]> (j) y = MatMul (x, t)"
)


def model(nodes: str, codes: np.ndarray | None = None, opset: int = 21, **constants: np.ndarray) -> Model:
    """A model of ``x`` [2, 12] and codes [4, 12] in 3 groups of 4."""
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g (float[2,12] x) => (float[2,4] y) {{ {nodes} }}'
    proto = onnx.parser.parse_model(text)
    given = {
        "w": codes if codes is not None else RNG.integers(-8, 8, (4, 12)).astype(np.int8),
        "s": SCALES,
        "z": np.zeros((4, 3, 1), np.float32),
        "groups": np.array([4, 3, 4]),
        "matrix": np.array([4, 12]),
    } | constants
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in given.items())
    return Model(proto)


def normalized(given: Model, tmp_path) -> tuple[onnx.ModelProto, Repaired]:
    found = normalized_model(given, DataRequest(samples=3))
    save_model(found.model, tmp_path / "m.onnx")
    return onnx.load(tmp_path / "m.onnx"), found.report


def stored_type(proto: onnx.ModelProto) -> str:
    (node,) = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"]
    stored = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    return TensorProto.DataType.Name(stored[node.input[0]]).lower()


@pytest.mark.parametrize(
    ("nodes", "constants", "kind"),
    [
        pytest.param(TORCHAO, {}, "int4", id="torchao"),
        pytest.param(TORCHAO, {"z": ZEROS}, "int8", id="zero points"),
        pytest.param(TORCHAO, {"z": np.float32(1).reshape(())}, "int8", id="one zero point"),
        pytest.param(
            TORCHAO, {"codes": np.arange(48).reshape(4, 12).astype(np.int8) % 2, "z": ZEROS}, "int4", id="few"
        ),
        pytest.param(
            TORCHAO, {"codes": RNG.integers(0, 16, (4, 12)).astype(np.uint8), "z": ZEROS + 3}, "int8", id="unsigned"
        ),
        pytest.param(
            TORCHAO, {"codes": RNG.integers(0, 256, (4, 12)).astype(np.uint8), "z": ZEROS + 3}, "uint8", id="8 bits"
        ),
        pytest.param(TORCHAO, {"codes": RNG.integers(-90, 90, (4, 12)).astype(np.int8)}, "int8", id="int8"),
        pytest.param(TORCHAO, {"s": SCALES[:, :1]}, "int4", id="a scale for each row"),
        pytest.param(TORCHAO.replace("a = Sub (k, z) m = Mul (a, s)", "m = Mul (k, s)"), {}, "int4", id="no Sub"),
        pytest.param(TORCHAO.replace("Mul (a, s)", "Mul (s, a)"), {}, "int4", id="turned round"),
        pytest.param(
            TORCHAO.replace("r = Reshape (w, groups) k = Cast <to = 1> (r)", "k = Cast <to = 1> (w)"),
            {"codes": RNG.integers(-8, 8, (4, 3, 4)).astype(np.int8)},
            "int4",
            id="stored in groups",
        ),
        pytest.param(
            TORCHAO.replace(
                "r = Reshape (w, groups) k = Cast <to = 1> (r)", "r = Cast <to = 1> (w) k = Reshape (r, groups)"
            ),
            {},
            "int4",
            id="reshaped behind the Cast",
        ),
        pytest.param(TORCHAO, {"opset": 17}, "int4", id="an older opset"),
    ],
)
def test_a_block_dq_makes_the_same_bits(nodes: str, constants: dict, kind: str, tmp_path):
    before = model(nodes, **constants)
    after, done = normalized(before, tmp_path)

    assert [(change.label, change.description) for change in done.changes[:1]] == [
        ("safe", "writes Cast and Mul of codes in groups of 4 as a DQ in blocks")
    ]
    assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "Transpose", "MatMul"]
    assert {each.name: each.i for each in after.graph.node[0].attribute} == {"axis": 1, "block_size": 4}
    assert stored_type(after) == kind
    x = RNG.normal(size=(2, 12)).astype(np.float32)
    assert run(after, {"x": x})[0].tobytes() == run(before.proto, {"x": x})[0].tobytes()
    onnx.checker.check_model(after, full_check=True)


def test_one_group_for_each_row_is_a_channel(tmp_path):
    one = {"s": SCALES[:, :1], "z": ZEROS[:, :1], "groups": np.array([4, 1, 12])}
    before = model(TORCHAO, **one)
    after, _ = normalized(before, tmp_path)

    assert {each.name: each.i for each in after.graph.node[0].attribute} == {"axis": 0}
    x = RNG.normal(size=(2, 12)).astype(np.float32)
    assert run(after, {"x": x})[0].tobytes() == run(before.proto, {"x": x})[0].tobytes()


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        pytest.param(TORCHAO, {"s": SCALES.transpose(2, 1, 0)[..., :1] + np.zeros((1, 1, 4), np.float32)}, id="inside"),
        pytest.param(TORCHAO, {"z": np.zeros((4, 3, 4), np.float32)}, id="zero points inside a group"),
        pytest.param(TORCHAO, {"s": SCALES.astype(np.float64)}, id="float64"),
        pytest.param(TORCHAO, {"codes": RNG.integers(-8, 8, (4, 12)).astype(np.int32)}, id="int32"),
        pytest.param(TORCHAO, {"codes": np.zeros((4, 11), np.int8)}, id="too few codes"),
        pytest.param(TORCHAO.replace("Sub (k, z)", "Sub (z, k)"), {}, id="subtracted"),
        pytest.param(TORCHAO.replace("Mul (a, s)", "Div (a, s)"), {}, id="divided"),
        pytest.param(TORCHAO.replace("Mul (a, s)", "Mul (a, a)"), {}, id="squared"),
        pytest.param(
            TORCHAO.replace("Mul (a, s)", "Mul (a, e)") + " e = Exp (c) c = Cast <to = 1> (x)", {}, id="computed"
        ),
        pytest.param(TORCHAO + " other = Neg (m)", {}, id="the product is read"),
        pytest.param(TORCHAO + " other = Neg (r)", {}, id="the groups are read"),
        pytest.param(TORCHAO.replace("j = Reshape (m, matrix)", "n = Neg (m) j = Reshape (n, matrix)"), {}, id="Neg"),
        pytest.param(TORCHAO, {"groups": np.array([4, 3, 2, 2]), "s": SCALES[..., None]}, id="two axes joined"),
    ],
)
def test_what_no_block_dq_makes_stays(nodes: str, constants: dict):
    found = normalized_model(model(nodes, **constants), DataRequest(samples=2))

    assert not [each for each in (*found.report.changes, *found.report.refused) if each.code == "grouped-weight"]


@pytest.mark.parametrize(
    ("constants", "output", "reason"),
    [({"z": ZEROS + np.float32(0.5)}, "", "its zero points must be 8-bit integers"), ({}, "j", "'j' is an output")],
)
def test_what_a_dq_cannot_hold_has_a_reason(constants: dict, output: str, reason: str):
    given = model(TORCHAO, **constants)
    if output:
        given.proto.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, [4, 12]))
    found = normalized_model(given, DataRequest(samples=2))

    assert not found.report.changes
    assert [refused.reason[: len(reason)] for refused in found.report.refused] == [reason]
