"""Edits of a plan: each kind is applied and built again, and the conversion has gone from the dump."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from support.engine_models import IMAGE, ROWS, Net, save

from qdqtool.cli import command
from qdqtool.engines.build.plan_edits import CODES, INPUT, NO_READER, OUTPUT, PlanEdits
from qdqtool.engines.build.report import PlanEdit
from qdqtool.engines.tensorrt.kernels import FLOATS, is_quantized
from qdqtool.jobs.inspect_engine import inspect_engine
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqIndex
from qdqtool.models.graph.model import Model


def conv(net: Net, x: str, y: str, op_type: str = "Conv") -> str:
    return net.op(op_type, [x, net.float_weight(f"w_{y}", (16, 16, 3, 3))], y, pads=[1] * 4)


def sigmoid_first() -> onnx.ModelProto:
    net = Net()
    net.op("Sigmoid", ["x"], "s")
    net.op("MatMul", ["s", net.float_weight("w", (64, 64))], "m")
    net.op("MatMul", ["m", net.float_weight("v", (64, 64))], "y")
    return net.model(ROWS)


def beside_a_conv(net: Net, other: str) -> onnx.ModelProto:
    """A network with a Conv of its own, so that something stays quantized, and another output."""
    conv(net, "x", "y")
    model = net.model(IMAGE)
    model.graph.output.append(onnx.helper.make_tensor_value_info(other, onnx.TensorProto.FLOAT, None))
    return model


def float_steps() -> onnx.ModelProto:
    net = Net()
    net.op("Relu", ["x"], "r")
    return beside_a_conv(net, net.op("GlobalAveragePool", ["r"], "s"))


def pooled() -> onnx.ModelProto:
    net = Net()
    net.op("MaxPool", ["x"], "p", kernel_shape=[2, 2], strides=[2, 2])
    return beside_a_conv(net, net.op("GlobalAveragePool", ["p"], "s"))


def deconvolution() -> onnx.ModelProto:
    net = Net()
    net.op("Relu", [conv(net, "x", "a", "ConvTranspose")], "r")
    conv(net, "r", "y")
    return net.model(IMAGE)


def two_readers(pool: bool = False) -> onnx.ModelProto:
    """A tensor that a Conv reads, perhaps behind a MaxPool, and an Add that stays float."""
    net = Net()
    net.op("Relu", [conv(net, "x", "a")], "r")
    source = net.op("MaxPool", ["r"], "p", kernel_shape=[3, 3], pads=[1] * 4) if pool else "r"
    net.op("Sigmoid", [conv(net, source, "b")], "s")
    net.op("Add", ["s", "r"], "y")
    return net.model(IMAGE)


def asking(*op_types: str) -> str:
    return " ".join(f"--op-types-to-quantize {op_type}" for op_type in op_types)


@dataclass(frozen=True)
class Case:
    """A float model, the options that quantize it, and the conversion that its engine has."""

    make: Callable[[], onnx.ModelProto]
    kind: str
    qdq: str
    node: str | None = None
    options: str = ""
    exclude: str = ""


CASES = {
    "a float kernel that ends in codes": Case(
        sigmoid_first, "quantize", "s_QuantizeLinear", exclude="--nodes-to-exclude m.MatMul"
    ),
    "a pair in front of a float operator": Case(
        float_steps,
        "quantize-dequantize",
        "r_QuantizeLinear",
        options=asking("Conv", "GlobalAveragePool"),
        exclude="--nodes-to-exclude s.GlobalAveragePool",
    ),
    "a pool of codes in front of a float operator": Case(
        pooled,
        "dequantize",
        "p_DequantizeLinear",
        options=asking("Conv", "GlobalAveragePool"),
        exclude="--nodes-to-exclude s.GlobalAveragePool",
    ),
    "a product that runs in float": Case(
        deconvolution,
        "float-operands",
        "x_DequantizeLinear",
        node="a.ConvTranspose",
        options=asking("Conv", "ConvTranspose"),
        exclude="--nodes-to-exclude a.ConvTranspose",
    ),
    "a float copy": Case(two_readers, "float-copy", "r_QuantizeLinear", exclude="--nodes-to-exclude b.Conv"),
    "a float copy in front of a pool": Case(
        lambda: two_readers(pool=True), "float-copy", "p_QuantizeLinear", exclude="--nodes-to-exclude b.Conv"
    ),
}


def run(words: str, folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(command, shlex.split(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output


QUANTIZE = "quantize m.onnx --random-calibration --samples 2 --no-equalize --no-bias-correction"


def build(folder: Path):
    run("build q.onnx -o e --backend tensorrt-rtx --compute-capabilities 8.9 --timeout 120", folder)
    return inspect_engine(folder / "e")


def is_there(case: Case, engine) -> bool:
    return any(
        entry.kind == case.kind and case.qdq in entry.qdq and entry.node == case.node
        for entry in engine.conversions.proven
    )


def float_copies(engine) -> list[str]:
    """Kernels that write codes and floats, as the dump has it."""
    return [
        kernel.name
        for kernel in engine.kernels
        if any(is_quantized(tensor.type) for tensor in kernel.outputs)
        and any(tensor.type in FLOATS for tensor in kernel.outputs)
    ]


@pytest.mark.builder
@pytest.mark.parametrize("name", CASES)
def test_the_options_remove_the_conversion(name: str, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    case = CASES[name]
    save(case.make(), tmp_path)
    run(f"{QUANTIZE} {case.options} -o q.onnx", tmp_path)
    before = build(tmp_path)
    assert is_there(case, before), before.conversions
    found = next(entry for entry in before.conversions.proven if entry.kind == case.kind and entry.node == case.node)
    assert found.edit.options == case.exclude
    if case.kind == "float-copy":
        assert float_copies(before)

    # As a user would: the same command again, with the options pasted behind it.
    run(f"{QUANTIZE} {case.options} {found.edit.options} -o q.onnx", tmp_path)
    after = build(tmp_path)
    assert not is_there(case, after)
    assert not any(case.qdq in kernel.nodes for kernel in after.kernels)
    if case.kind == "float-copy":
        assert float_copies(after) == []


@pytest.mark.builder
@pytest.mark.parametrize("pool", [False, True])
def test_an_entry_that_all_readers_share_removes_a_float_copy(pool: bool, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    save(two_readers(pool), tmp_path)
    run(f"{QUANTIZE} --save-plan plan.json -o q.onnx", tmp_path)
    before = build(tmp_path)
    (found,) = (entry for entry in before.conversions.proven if entry.kind == "float-copy")
    shared = found.edit.shared
    assert (shared.tensor, set(shared.consumers)) == ("r", {"p.MaxPool" if pool else "b.Conv", "y.Add"})

    plan = json.loads((tmp_path / "plan.json").read_text())
    replaced = next(entry for entry in plan["tensors"] if entry["tensor"] == ("p" if pool else "r"))
    replaced |= {"tensor": shared.tensor, "consumers": list(shared.consumers)}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    run("insert m.onnx --plan plan.json -o q.onnx", tmp_path)
    after = build(tmp_path)
    assert [entry.kind for entry in after.conversions.proven] == ["quantize"]
    assert float_copies(after) == []
    assert after.achieved == before.achieved


def edits_of(model: onnx.ModelProto) -> tuple[PlanEdits, QdqIndex]:
    index = ModelIndex.of(Model(model))
    return PlanEdits(index), index.qdq


def test_no_edit_removes_the_quantize_of_the_graph_input():
    net = Net()
    net.op("Transpose", ["x"], "t", perm=[1, 0])
    net.op("Sigmoid", [net.activation("t")], "y")
    edits, qdq = edits_of(net.model(ROWS))
    assert edits.for_quantizers(list(qdq.quantizers())) == INPUT
    assert edits.for_dequantizers(list(qdq.dequantizers())) == PlanEdit(
        options="--nodes-to-exclude y.Sigmoid", nodes=("y.Sigmoid",)
    )


def test_no_edit_removes_the_dequantize_of_the_graph_output():
    net = Net()
    net.op("Relu", ["x"], "r")
    net.op("Reshape", [net.activation("r"), net.constant("shape", np.array([64, 8]))], "y")
    edits, qdq = edits_of(net.model(ROWS))
    assert edits.for_quantizers(list(qdq.quantizers())) == OUTPUT
    assert edits.for_dequantizers(list(qdq.dequantizers())) == OUTPUT


def test_codes_that_the_graph_is_given_stay():
    net = Net()
    net.op("DequantizeLinear", ["x", net.scale("s")], "d")
    net.op("Sigmoid", ["d"], "y")
    model = net.model(ROWS)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    edits, qdq = edits_of(model)
    assert edits.for_dequantizers(list(qdq.dequantizers())) == CODES


def test_a_weight_that_is_listed_as_an_input_is_no_input():
    net = Net()
    net.op("MatMul", ["x", net.weight("w", (64, 32), axis=1)], "y")
    model = net.model(ROWS)
    model.ir_version = 3
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.INT8, (64, 32)))
    edits, qdq = edits_of(model)
    found = edits.for_dequantizers(list(qdq.dequantizers()))
    assert found == PlanEdit(options="--nodes-to-exclude y.MatMul", nodes=("y.MatMul",))


def test_a_pair_that_nothing_reads():
    net = Net()
    net.op("Relu", ["x"], "y")
    net.activation("y")
    edits, qdq = edits_of(net.model(ROWS))
    assert edits.for_quantizers(list(qdq.quantizers())) == NO_READER


def test_options_can_be_pasted_whatever_the_names_are():
    net = Net()
    net.op("Relu", ["x"], "r")
    x = net.activation("r")
    net.nodes.append(onnx.helper.make_node("Sigmoid", [x], ["a"], "it's [a]*"))
    net.nodes.append(onnx.helper.make_node("Sigmoid", [x], ["b"], ""))
    net.op("Add", ["a", "b"], "y")
    edits, qdq = edits_of(net.model(ROWS))
    found = edits.for_quantizers(list(qdq.quantizers()))
    assert isinstance(found, PlanEdit)
    assert shlex.split(found.options) == ["--nodes-to-exclude", "it's [[]a][*]", "--nodes-to-exclude", "b"]
