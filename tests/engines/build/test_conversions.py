"""Conversions that a layer dump proves, and those that it does not: on dumps of RTX 1.7.1, and on altered ones."""

from collections.abc import Callable
from dataclasses import replace

import onnx
import pytest
from support.engine_models import IMAGE, ROWS, Net, conv, mixed_axes, save
from support.kernels import engine_of, kernels_in, tensors

from qdqtool.engines.build.conversions import find_conversions
from qdqtool.engines.build.report import Conversions
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER
from qdqtool.engines.tensorrt.builder import EngineRequest
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model

HASH = "_0x" + "0" * 32
STUB = "__myelin_CASK_STUB"


def found(model: onnx.ModelProto, *kernels: Kernel) -> Conversions:
    conversions = find_conversions(Model(model), engine_of(*kernels))
    assert conversions is not None
    return conversions


def kinds(conversions: Conversions) -> list[tuple[str, tuple[str, ...]]]:
    return [(entry.kind, entry.qdq) for entry in conversions.proven]


def residual() -> onnx.ModelProto:
    """x -> Q/DQ -> MatMul, and the DQ a second time -> Relu -> Add -> y."""
    net = Net()
    net.op("MatMul", [net.activation("x"), net.weight("w", (64, 64), axis=1)], "a")
    net.op("Add", ["a", net.op("Relu", ["x_d"], "b")], "y")
    return net.model(ROWS)


def pooled() -> onnx.ModelProto:
    net = Net()
    net.op("MaxPool", [net.activation("x")], "p", kernel_shape=[2, 2], strides=[2, 2])
    net.op("Sigmoid", ["p"], "y")
    return net.model(IMAGE)


def pair_before_sigmoid() -> onnx.ModelProto:
    net = Net()
    net.op("Sigmoid", [net.activation("x")], "y")
    return net.model(ROWS)


def one_sided() -> onnx.ModelProto:
    net = Net()
    net.op("MatMul", [net.activation("x"), net.float_weight("w", (64, 64))], "y")
    return net.model(ROWS)


def weight_only() -> onnx.ModelProto:
    net = Net()
    net.op("MatMul", ["x", net.weight("w", (64, 64), axis=1)], "y")
    return net.model(ROWS)


QUANTIZES_X = ("quantize", ("x_q.QuantizeLinear",))
DEQUANTIZES_X = ("dequantize", ("x_d.DequantizeLinear",))
PAIR_INSIDE = ("quantize-dequantize", ("x_q.QuantizeLinear", "x_d.DequantizeLinear"))
PATTERNS: dict[str, tuple[Callable[[], onnx.ModelProto], list[tuple[str, tuple[str, ...]]], int]] = {
    "a residual behind a product": (residual, [QUANTIZES_X], 1),
    "a pool between pair and Sigmoid": (pooled, [QUANTIZES_X, DEQUANTIZES_X], 0),
    "a pair that feeds no product": (pair_before_sigmoid, [PAIR_INSIDE], 0),
    "a float weight": (one_sided, [QUANTIZES_X, DEQUANTIZES_X], 0),
    "a weight alone": (weight_only, [], 0),
    "a weight with a wrong axis": (
        lambda: conv(axis=1),
        [
            ("dequantize", ("w_d.DequantizeLinear",)),
            PAIR_INSIDE,
            ("float-operands", ("x_d.DequantizeLinear", "w_d.DequantizeLinear")),
        ],
        0,
    ),
}


@pytest.mark.builder
@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_the_builder_makes_of_each_pattern(pattern, tmp_path):
    pytest.importorskip("tensorrt_rtx")
    make, proven, unknown = PATTERNS[pattern]
    model = load_model(save(make(), tmp_path))
    built = BUILDER.build(EngineRequest(model=model, engine=tmp_path / "e", targets=("8.9",), timeout=120))
    conversions = find_conversions(model, built)
    assert conversions is not None
    assert kinds(conversions) == proven
    assert len(conversions.unknown) == unknown


def test_of_a_network_with_one_conv_that_fell_back():
    kernels = kernels_in("mixed_axes")
    conversions = found(mixed_axes(), *kernels)
    fallback = next(entry for entry in conversions.proven if entry.kind == "float-operands")
    assert fallback.node == "a.Conv"
    assert [entry.node for entry in conversions.proven if entry.node not in {None, "a.Conv"}] == []
    stubs = {kernel.name for kernel in kernels if kernel.tactic == STUB}
    assert {entry.written_by for entry in conversions.unknown} <= stubs
    assert not {entry.read_by for entry in conversions.unknown} & {entry.kernel for entry in conversions.proven}


QUANTIZE = Kernel(
    name="__myl_MulMinMaxRounCast_0",
    layer_type="kgen",
    tactic="__myl_MulMinMaxRounCast" + HASH,
    inputs=tensors("float32", name="x"),
    outputs=tensors("int8", name="q"),
    nodes=("x_q.QuantizeLinear",),
)
DEQUANTIZE = Kernel(
    name="__myl_CastMul_1",
    layer_type="kgen",
    tactic="__myl_CastMul" + HASH,
    inputs=tensors("int8", name="q"),
    outputs=tensors("float32", name="y"),
    nodes=("x_d.DequantizeLinear",),
)


def small() -> onnx.ModelProto:
    """A graph whose only input is x0, the input of QUANTIZE."""
    model = pair_before_sigmoid()
    model.graph.input[0].name = "x0"
    return model


def writer(tactic: str) -> Kernel:
    return Kernel(name="w", layer_type="gemm", tactic=tactic, outputs=tensors("float32", name="x"))


@pytest.mark.parametrize(
    ("kernels", "steps"),
    [
        ((QUANTIZE, DEQUANTIZE), [QUANTIZES_X, DEQUANTIZES_X]),
        ((writer("__myl_Add" + HASH), QUANTIZE), [QUANTIZES_X]),
        ((QUANTIZE, writer(STUB)), [QUANTIZES_X]),
    ],
    ids=["types and nodes", "behind a generated kernel", "in front of a stub"],
)
def test_types_and_nodes_together_prove_a_step(kernels, steps):
    assert kinds(found(small(), *kernels)) == steps


@pytest.mark.parametrize(
    "kernel",
    [
        replace(QUANTIZE, nodes=("y.Sigmoid",)),
        replace(QUANTIZE, nodes=("x_d.DequantizeLinear",)),
        replace(QUANTIZE, outputs=tensors("float32")),
        replace(QUANTIZE, inputs=tensors("float32", "int8", name="x")),
        replace(QUANTIZE, inputs=()),
        replace(QUANTIZE, tactic=STUB),
        replace(QUANTIZE, tactic=""),
        replace(QUANTIZE, name="__myl_MulMinMaxRounCastFc_0"),
        replace(DEQUANTIZE, nodes=("x_q.QuantizeLinear",)),
        replace(DEQUANTIZE, inputs=tensors("float32", name="x")),
        replace(DEQUANTIZE, outputs=tensors("float32", "int8")),
        replace(DEQUANTIZE, inputs=(), constants=tensors("int8")),
        replace(DEQUANTIZE, layer_type="gemm"),
    ],
)
def test_anything_less_proves_nothing(kernel):
    assert found(small(), kernel).proven == ()


@pytest.mark.parametrize("tactic", [STUB, "", "another stub of a later release"])
def test_a_step_behind_a_stub_is_unknown_and_not_counted(tactic):
    conversions = found(small(), writer(tactic), QUANTIZE)
    assert conversions.proven == ()
    (entry,) = conversions.unknown
    assert (entry.tensor, entry.type, entry.bytes) == ("x0", "float32", 1024)
    assert (entry.written_by, entry.read_by) == ("w", "__myl_MulMinMaxRounCast_0")


def test_a_step_that_reads_what_nobody_writes_is_unknown():
    lost = replace(QUANTIZE, inputs=tensors("float32", name="lost"))
    conversions = found(small(), lost)
    assert conversions.proven == ()
    assert [(entry.tensor, entry.written_by) for entry in conversions.unknown] == [("lost0", None)]


def test_a_float_product_in_front_of_a_float_kernel_is_no_conversion():
    sigmoid = replace(DEQUANTIZE, name="__myl_Sigm_0", inputs=tensors("float32", name="x"), nodes=("y.Sigmoid",))
    assert found(small(), writer(STUB), sigmoid) == Conversions()


def test_a_kernel_behind_a_quantized_stub_is_unknown_though_it_names_a_dequantize():
    stub = replace(writer(STUB), inputs=tensors("int8", name="q"))
    bias = replace(DEQUANTIZE, inputs=tensors("float32", name="x"))
    conversions = found(small(), stub, bias)
    assert conversions.proven == ()
    assert [entry.written_by for entry in conversions.unknown] == ["w"]


@pytest.mark.parametrize("evidence", ["inspector", "none"])
def test_other_evidence_was_never_measured(evidence):
    assert find_conversions(Model(small()), engine_of(QUANTIZE, evidence=evidence)) is None
