"""Reading layer dumps.

The files in data/ are what TensorRT for RTX 1.7.1 printed for the models of the same names in support.engine_models.
"""

import json
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kernels import DUMPS, dumped, kernels_in

from qdqtool.engines.tensorrt.inspector import onnx_type, read_dump
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor


def by_name(kernels, start):
    return next(kernel for kernel in kernels if kernel.name.startswith(start))


@pytest.mark.parametrize("name", sorted(path.stem for path in DUMPS.glob("*.txt")))
def test_every_line_of_a_real_dump_is_read(name):
    assert len(kernels_in(name)) == dumped(name).count("LayerType: ")


def test_an_int8_conv_reads_int8_data_and_an_int8_constant():
    kernel = by_name(kernels_in("mixed_axes"), "b.Conv")
    assert (kernel.layer_type, kernel.input_types, kernel.weight_types) == ("correlation", ("int8",), ("int8",))
    assert kernel.output_types == ("float32",)
    assert kernel.nodes == ("b.Conv", "r_d.DequantizeLinear", "w2_d.DequantizeLinear")


def test_a_conv_that_fell_back_reads_floats():
    assert set(by_name(kernels_in("mixed_axes"), "a.Conv").input_types) == {"float32"}


def test_scales_and_biases_are_no_constants_of_a_kernel():
    kernel = by_name(kernels_in("matmul_axis_k"), "__myl_CastMulCast")
    assert kernel.weight_types == ("int8",)
    assert len(kernel.constants) > 1


def test_nodes_of_a_branch_carry_their_call_path():
    nodes = [node for kernel in kernels_in("branches") for node in kernel.nodes]
    assert "then.then_y.MatMul | then (then_branch) | y.If (If)" in nodes
    assert "node_of_else_y | else (else_branch) | y.If (If)" in nodes


TYPES = {
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Bf16": "bfloat16",
    "FP8": "float8e4m3fn",
    "FP8_E4M3": "float8e4m3fn",
    "FP4E2M1": "float4e2m1",
    "E8M0": "float8e8m0",
    "Int4": "int4",
    "Int8": "int8",
    "UInt8": "uint8",
    "Int32": "int32",
    "Int64": "int64",
    "Bool": "bool",
}
FLOATS = ("Float", "Half", "BFloat16", "Bf16")

Tensors = Sequence[tuple[str, list[int]]]


def tensors(listed: Tensors) -> str:
    """Tensors as TensorRT for RTX 1.7.1 prints them."""
    inner = ", ".join(
        f"{{ Name: t{number}, Dimensions: {json.dumps(dims, separators=(',', ':'))}, Strides: [1,-1],"
        f" StrideOrder: [1,0], Datatype: {kind}, Format: (Linear) Row major linear format }}"
        for number, (kind, dims) in enumerate(listed)
    )
    return f"[ {inner}]" if inner else "[]"


def read(listed: Tensors) -> tuple[KernelTensor, ...]:
    """What the reader makes of them."""
    return tuple(
        KernelTensor(f"t{number}", TYPES[kind], tuple(None if dim == -1 else dim for dim in dims))
        for number, (kind, dims) in enumerate(listed)
    )


words = st.text("abNFc_. []{}|:(),", max_size=12)
listed = st.lists(
    st.tuples(st.sampled_from(sorted(TYPES)), st.lists(st.sampled_from([-1, 1, 1, 2, 16]), max_size=4)), max_size=3
)


@st.composite
def records(draw):
    """A line of the dump, and the kernel that it is about."""
    name, tactic = draw(words), draw(words)
    layer_type = draw(st.sampled_from(["gemm", "kgen", "branch, JumpTargetThen: 4"]))
    inputs, outputs, constants = draw(listed), draw(listed), draw(st.none() | listed)
    nodes = draw(st.lists(words, max_size=3))
    given_constants = "" if constants is None else f", Constants: {tensors(constants)}"
    metadata = draw(st.sampled_from("\x1e\x1f")).join(f"[ONNX Layer: {node}]" for node in nodes)
    text = (
        f"Name: {name}, LayerType: {layer_type}, Inputs: {tensors(inputs)}{given_constants},"
        f" Outputs: {tensors(outputs)}, TacticName: {tactic}, StreamId: 0, Metadata: {metadata}"
    )
    made = {"inputs": read(inputs), "constants": read(constants or []), "outputs": read(outputs)}
    return text, Kernel(name=name, layer_type=layer_type, tactic=tactic, nodes=tuple(nodes), **made)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(records(), max_size=4))
def test_what_was_written_is_read(lines):
    text = "\n".join(["Layers:", *(text for text, _ in lines)]) + "\n\nI/O Tensors:\n Name: x, LayerType: none"
    assert read_dump(text) == tuple(kernel for _, kernel in lines)


@pytest.mark.parametrize("missing", [", LayerType: ", ", Inputs: ", ", Outputs: ", ", TacticName: ", ", StreamId: "])
def test_a_line_without_one_of_its_fields_is_left_out(missing):
    line = "Name: a, LayerType: gemm, Inputs: [], Outputs: [], TacticName: t, StreamId: 0, Metadata: "
    assert len(read_dump(f"Layers:\n{line}")) == 1
    assert read_dump(f"Layers:\n{line.replace(missing, ', ')}") == ()
    assert [kernel.tactic for kernel in read_dump(f"{line.replace(missing, ', ')}\n{line}")] == ["t"]


@pytest.mark.parametrize(("between", "found"), [("", 1), ("A: [1], B: [], C: [-1], D: [2], ", 1), ("A: [1], " * 5, 0)])
def test_fields_between_dimensions_and_type(between, found):
    tensor = f"{{ Name: x, Dimensions: [8,64], {between}Datatype: Int8, Format: f }}"
    line = f"Name: a, LayerType: gemm, Inputs: [ {tensor}], Outputs: [], TacticName: t, StreamId: 0, Metadata: "
    assert read_dump(line)[0].input_types == ("int8",) * found


@pytest.mark.parametrize("text", ["", "Layers:", "Layers:\nName: x, LayerType: gemm", "\0" * 99, "Name: " * 50])
def test_what_is_no_dump_has_no_kernels(text):
    assert read_dump(text) == ()


def test_names_that_look_like_fields_do_not_break_the_other_lines():
    evil = "x, Inputs: [ { Name: y, Dimensions: [1,2], Datatype: Int8, Format: z }], Metadata: [ONNX Layer: b.Conv]"
    text = dumped("mixed_axes").replace("Name: x, Dimensions", f"Name: {evil}, Dimensions")
    assert by_name(read_dump(text), "b.Conv").input_types == ("int8",)


def test_reading_takes_time_in_proportion_to_the_text():
    line = "Name: a, LayerType: gemm, Inputs: " + "[ { Name: " + ", Dimensions: [" * 20000
    started = time.perf_counter()
    read_dump("Layers:\n" + "\n".join([line] * 4))
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("name", TYPES)
def test_types_are_named_as_onnx_names_them(name):
    assert onnx_type(name) == TYPES[name]
