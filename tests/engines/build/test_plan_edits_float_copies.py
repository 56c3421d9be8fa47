"""Float copies beside codes: in a dump of RTX 1.7.1, and in altered ones, in which they are no copies."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from support.engine_models import IMAGE, ROWS, Net, float_copy, save, squeeze_excite

from qdqtool.engines.build.plan_edits import FloatCopies
from qdqtool.engines.build.report import SharedEntry
from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER
from qdqtool.engines.tensorrt.builder import EngineRequest
from qdqtool.engines.tensorrt.inspector import read_dump
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model

DATA = Path(__file__).parents[1] / "tensorrt" / "data"


def dump(name: str) -> tuple[Kernel, ...]:
    return read_dump((DATA / f"{name}.txt").read_text(encoding="utf-8"))


@pytest.mark.builder
@pytest.mark.parametrize("make", [float_copy, squeeze_excite])
def test_the_builder_prints_what_it_printed_before(make: Callable[[], onnx.ModelProto], tmp_path: Path):
    """Where this fails with a new release: look at the difference, then store the new dump in
    tests/engines/tensorrt/data.
    """
    pytest.importorskip("tensorrt_rtx")
    request = EngineRequest(model=load_model(save(make(), tmp_path)), engine=tmp_path / "e", targets=("8.9",))
    expected = (DATA / f"{make.__name__}.txt").read_text(encoding="utf-8")
    assert BUILDER.build(request).layer_dump == expected


def found(model: onnx.ModelProto, kernels: tuple[Kernel, ...]) -> list[tuple[str, str, SharedEntry]]:
    copies = FloatCopies(ModelIndex.of(Model(model)), kernels)
    return [(kernel.name, copy.quantize.node.label, copy.shared) for kernel in kernels for copy in copies.of(kernel)]


WRITER, READER = "__myl_MulReluMulMinMaxRounCast_myl0_2", "__myl_MulAddMove_myl0_5"
SHARED = SharedEntry(tensor="r", consumers=("p.MaxPool", "y.Add"))


def test_the_kernel_in_front_of_a_pool_and_an_add_writes_a_copy():
    assert found(float_copy(), dump("float_copy")) == [(WRITER, "p_q.QuantizeLinear", SHARED)]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (WRITER, lambda kernel: replace(kernel, tactic="__myelin_CASK_STUB")),
        (WRITER, lambda kernel: replace(kernel, nodes=("r.Relu",))),
        (WRITER, lambda kernel: replace(kernel, nodes=("p_q.QuantizeLinear",))),
        (WRITER, lambda kernel: replace(kernel, outputs=kernel.outputs[:1])),
        (WRITER, lambda kernel: replace(kernel, outputs=tuple(other_shape(kernel)))),
        (READER, lambda kernel: replace(kernel, tactic="__myelin_CASK_STUB")),
        (READER, lambda kernel: replace(kernel, inputs=kernel.inputs[1:])),
        (READER, lambda kernel: replace(kernel, nodes=("x_d.DequantizeLinear",))),
    ],
)
def test_less_is_no_proof(name: str, change: Callable[[Kernel], Kernel]):
    kernels = dump("float_copy")
    assert {WRITER, READER} <= {kernel.name for kernel in kernels}
    altered = tuple(change(kernel) if kernel.name == name else kernel for kernel in kernels)
    assert altered != kernels
    assert found(float_copy(), altered) == []


def other_shape(kernel: Kernel):
    codes, floats = kernel.outputs
    return codes, replace(floats, shape=(1, 16, 4, 16))


def test_the_sum_beside_the_codes_of_its_normalization_is_no_copy():
    """A transformer block: the kernel writes the sum for the next Add, and codes of what normalizes it."""
    net = Net()
    net.op("Add", ["x", "x"], "sum")
    net.op("Sigmoid", ["sum"], "norm")
    net.op("MatMul", [net.activation("norm"), net.weight("w", (64, 64), axis=1)], "m")
    net.op("Add", ["m", "sum"], "y")
    kernels = renamed(dump("float_copy"), ("sum.Add", "norm.Sigmoid", "norm_q.QuantizeLinear"))
    assert found(net.model(ROWS), kernels) == []


def test_a_reader_that_also_reads_another_tensor_of_the_kernel_proves_nothing():
    net = Net()
    net.op("Sigmoid", ["x"], "s")
    net.op("Relu", ["s"], "r")
    net.op("Conv", [net.activation("r"), net.weight("w", (16, 16, 3, 3), axis=0)], "b", pads=[1] * 4)
    net.op("Sum", ["b", "r", "s"], "y")
    model = net.model(IMAGE)
    model.graph.node[-1].name = "y.Add"
    kernels = renamed(dump("float_copy"), ("s.Sigmoid", "r.Relu", "r_q.QuantizeLinear"))
    assert found(model, kernels) == []
    model.graph.node[-1].input[:] = ["b", "r"]
    assert [label for _, label, _ in found(model, kernels)] == ["r_q.QuantizeLinear"]


def renamed(kernels: tuple[Kernel, ...], nodes: tuple[str, ...]) -> tuple[Kernel, ...]:
    """The dump with other nodes in the kernel that writes codes and floats."""
    return tuple(replace(kernel, nodes=nodes) if kernel.name == WRITER else kernel for kernel in kernels)


def test_networks_without_copies():
    assert found(squeeze_excite(), dump("squeeze_excite")) == []
