"""Float copies beside codes: in a dump of RTX 1.7.1, and in altered ones, in which they are no copies."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.engine_models import IMAGE, ROWS, Net, float_copy, save, squeeze_excite
from support.kernels import dumped, kernels_in

from qdqtool.engines.build.plan_edits import FloatCopies
from qdqtool.engines.build.report import SharedEntry
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER
from qdqtool.engines.tensorrt.builder import EngineRequest
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model


@pytest.mark.builder
@pytest.mark.parametrize("make", [float_copy, squeeze_excite])
def test_the_builder_prints_what_it_printed_before(make: Callable[[], onnx.ModelProto], tmp_path: Path):
    """Where this fails with a new release: look at the difference, then store the new dump in
    tests/engines/tensorrt/data.
    """
    pytest.importorskip("tensorrt_rtx")
    request = EngineRequest(model=load_model(save(make(), tmp_path)), engine=tmp_path / "e", targets=("8.9",))
    assert BUILDER.build(request).layer_dump == dumped(make.__name__)


def found(model: onnx.ModelProto, kernels: tuple[Kernel, ...]) -> list[tuple[str, str, SharedEntry]]:
    copies = FloatCopies(ModelIndex.of(Model(model)), kernels)
    return [(kernel.name, copy.quantize.node.label, copy.shared) for kernel in kernels for copy in copies.of(kernel)]


WRITER, READER = "__myl_MulReluMulMinMaxRounCast_myl0_2", "__myl_MulAddMove_myl0_5"
SHARED = SharedEntry(tensor="r", consumers=("p.MaxPool", "y.Add"))


def test_the_kernel_in_front_of_a_pool_and_an_add_writes_a_copy():
    assert found(float_copy(), kernels_in("float_copy")) == [(WRITER, "p_q.QuantizeLinear", SHARED)]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (WRITER, lambda kernel: {"tactic": "__myelin_CASK_STUB"}),
        (WRITER, lambda kernel: {"nodes": ("r.Relu",)}),
        (WRITER, lambda kernel: {"nodes": ("p_q.QuantizeLinear",)}),
        (WRITER, lambda kernel: {"outputs": kernel.outputs[:1]}),
        (WRITER, lambda kernel: {"outputs": (kernel.outputs[0], replace(kernel.outputs[1], shape=(1, 16, 4, 16)))}),
        (READER, lambda kernel: {"tactic": "__myelin_CASK_STUB"}),
        (READER, lambda kernel: {"inputs": kernel.inputs[1:]}),
        (READER, lambda kernel: {"nodes": ("x_d.DequantizeLinear",)}),
    ],
)
def test_less_is_no_proof(name: str, change: Callable[[Kernel], dict[str, object]]):
    kernels = kernels_in("float_copy")
    assert {WRITER, READER} <= {kernel.name for kernel in kernels}
    altered = tuple(replace(kernel, **change(kernel)) if kernel.name == name else kernel for kernel in kernels)
    assert altered != kernels
    assert found(float_copy(), altered) == []


def test_the_sum_beside_the_codes_of_its_normalization_is_no_copy():
    """A transformer block: the kernel writes the sum for the next Add, and codes of what normalizes it."""
    net = Net()
    net.op("Add", ["x", "x"], "sum")
    net.op("Sigmoid", ["sum"], "norm")
    net.op("MatMul", [net.activation("norm"), net.weight("w", (64, 64), axis=1)], "m")
    net.op("Add", ["m", "sum"], "y")
    assert found(net.model(ROWS), renamed("sum.Add", "norm.Sigmoid", "norm_q.QuantizeLinear")) == []


def test_a_reader_that_also_reads_another_tensor_of_the_kernel_proves_nothing():
    net = Net()
    net.op("Sigmoid", ["x"], "s")
    net.op("Relu", ["s"], "r")
    net.op("Conv", [net.activation("r"), net.weight("w", (16, 16, 3, 3), axis=0)], "b", pads=[1] * 4)
    net.op("Sum", ["b", "r", "s"], "y")
    model = net.model(IMAGE)
    model.graph.node[-1].name = "y.Add"
    kernels = renamed("s.Sigmoid", "r.Relu", "r_q.QuantizeLinear")
    assert found(model, kernels) == []
    model.graph.node[-1].input[:] = ["b", "r"]
    assert [label for _, label, _ in found(model, kernels)] == ["r_q.QuantizeLinear"]


def renamed(*nodes: str) -> tuple[Kernel, ...]:
    """The dump of a float copy with other nodes in the kernel that writes codes and floats."""
    kernels = kernels_in("float_copy")
    return tuple(replace(kernel, nodes=nodes) if kernel.name == WRITER else kernel for kernel in kernels)


def test_networks_without_copies():
    assert found(squeeze_excite(), kernels_in("squeeze_excite")) == []
