"""Where products say that channels lie is where they lie in ONNX Runtime, for every product that there is."""

from collections.abc import Iterator

import numpy as np
import pytest
from support.onnx_cases import Array, OnnxCase, floats, make_case, node_cases, random_like

from qdqtool.models import ops
from qdqtool.models.ops import ChannelLayout, ProductOp

WRITTEN = (
    make_case("Conv", [floats(2, 6, 5), floats(4, 3, 3), floats(4)], {"group": 2, "pads": [1, 1]}),
    make_case("Conv", [floats(2, 6, 5), floats(4, 6, 2), floats(4)], {}),
    make_case("ConvTranspose", [floats(2, 6, 5), floats(6, 2, 3), floats(4)], {"group": 2}),
    make_case("ConvTranspose", [floats(2, 6, 5), floats(6, 4, 3), floats(4)], {"strides": [2]}),
    make_case("MatMul", [floats(2, 3, 4), floats(4, 5)], {}),
)
"""What ONNX has no example of: groups and biases, and a stored matrix behind a batch."""


def products() -> list[ProductOp]:
    return [op for op in ops.families() if isinstance(op, ProductOp)]


def stored_products(op: ProductOp) -> Iterator[tuple[OnnxCase, Array]]:
    """Examples of a family, with other weights."""
    written = (case for case in WRITTEN if case.proto.op_type in op.op_types)
    for case in (*written, *(case for op_type in op.op_types for case in node_cases(op_type))):
        weight = case.inputs[op.weight_input] if op.weight_input < len(case.inputs) else None
        if weight is not None and ops.product(case.node) is op:
            yield case, random_like(weight, seed=7)


def along(axis: int, factors: Array, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = factors.size
    return factors.reshape(shape)


def powers(count: int) -> Array:
    """Positive powers of two, as many as channels."""
    return (2.0 ** (np.arange(count) % 7)).astype(np.float32)


def without_bias(op: ProductOp, case: OnnxCase) -> dict[int, Array]:
    held = case.inputs[op.bias_input] if op.bias_input is not None and op.bias_input < len(case.inputs) else None
    return {} if held is None or op.bias_input is None else {op.bias_input: np.zeros_like(held)}


@pytest.mark.parametrize("op", [op for op in products() if op.channel_layout], ids=lambda op: op.op_types[0])
def test_the_layout_of_a_product_tells_input_from_output_channels(op: ProductOp):
    """Factors of the input channels may stand at activation or weight, those of the outputs at weight or result."""
    checked = 0
    for case, weight in stored_products(op):
        layout, at = op.product_layout(case.node, weight.shape), op.activation_layout(case.node)
        if layout is None or at is None:
            continue
        x, bias = random_like(case.x), without_bias(op, case)
        inputs, outputs = powers(layout.inputs), powers(layout.outputs)[::-1].copy()
        rescaled = layout.rescaled(weight, inputs, outputs).astype(np.float32)
        before = case.run(x * along(at.axis, inputs, x.ndim), {op.weight_input: weight, **bias})[0]
        after = case.run(x, {op.weight_input: rescaled, **bias})[0]
        assert np.allclose(after * along(at.axis, outputs, after.ndim), before, rtol=1e-3, atol=1e-4), case
        checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in products() if op.channel_layout], ids=lambda op: op.op_types[0])
def test_factors_along_the_output_axis_of_a_weight_are_those_of_the_result(op: ProductOp):
    checked = 0
    for case, weight in stored_products(op):
        axis = op.output_axis(case.node, weight.ndim)
        if axis is None or op.channel_layout is None or op.output_groups(case.node) > 1:
            continue
        x, bias, factors = random_like(case.x), without_bias(op, case), powers(weight.shape[axis])
        plain = case.run(x, {op.weight_input: weight, **bias})[0]
        scaled = case.run(x, {op.weight_input: weight * along(axis, factors, weight.ndim), **bias})[0]
        assert np.allclose(scaled, plain * along(op.channel_layout.axis, factors, plain.ndim), rtol=1e-4, atol=1e-5), (
            case
        )
        assert op.weight_axis(case.node, weight.ndim) in {None, axis}
        checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in products() if op.channel_layout], ids=lambda op: op.op_types[0])
def test_factors_along_the_reduction_axis_of_a_weight_are_those_of_the_activation(op: ProductOp):
    checked = 0
    for case, weight in stored_products(op):
        axis, at = op.reduction_axis(case.node, weight.ndim), op.activation_layout(case.node)
        if axis is None or at is None or case.node.attribute("group", 1) != 1 or case.x.ndim < 2:
            continue
        x, bias, factors = random_like(case.x), without_bias(op, case), powers(weight.shape[axis])
        weighted = case.run(x, {op.weight_input: weight * along(axis, factors, weight.ndim), **bias})[0]
        multiplied = case.run(x * along(at.axis, factors, x.ndim), {op.weight_input: weight, **bias})[0]
        assert np.allclose(weighted, multiplied, rtol=1e-3, atol=1e-4), case
        checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in products() if op.is_matrix_product], ids=lambda op: op.op_types[0])
def test_rows_of_the_activation_are_rows_of_the_product(op: ProductOp):
    checked = 0
    for case, weight in stored_products(op):
        axis = op.row_axis(case.node, case.x.ndim) if case.x.ndim > 1 else None
        if axis is None or weight.ndim < 2:
            continue
        x, bias, factors = random_like(case.x), without_bias(op, case), powers(case.x.shape[axis])
        plain = case.run(x, {op.weight_input: weight, **bias})[0]
        scaled = case.run(x * along(axis, factors, x.ndim), {op.weight_input: weight, **bias})[0]
        assert np.allclose(scaled, plain * along(plain.ndim - 2, factors, plain.ndim), rtol=1e-4, atol=1e-5), case
        checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in products() if op.bias_input], ids=lambda op: op.op_types[0])
def test_product_and_bias_are_added_up_with_their_factors(op: ProductOp):
    checked = 0
    for case, weight in stored_products(op):
        index = op.bias_input
        bias = case.inputs[index] if index is not None and index < len(case.inputs) else None
        if bias is None or index is None or not bias.size:
            continue
        x, (alpha, beta) = random_like(case.x), op.term_factors(case.node)
        alone, nothing = case.run(x, {op.weight_input: weight, index: np.zeros_like(bias)})[0], np.zeros_like(weight)
        added = case.run(x, {op.weight_input: nothing, index: bias})[0]
        unscaled = np.float32(beta) * bias
        assert np.allclose(case.run(x, {op.weight_input: weight, index: bias})[0], alone + added, rtol=1e-4, atol=1e-5)
        assert np.isin(np.round(added, 4), np.round([*unscaled.flat], 4)).all(), case
        assert alpha == case.node.attribute("alpha", 1.0)
        checked += 1
    assert checked


@pytest.mark.parametrize("op", [op for op in products() if op.sums_evenly], ids=lambda op: op.op_types[0])
def test_an_error_of_a_weight_shifts_the_whole_of_a_channel(op: ProductOp):
    """For an activation of one value, where nothing is padded."""
    checked = 0
    for case, weight in stored_products(op):
        padded = any(case.node.attribute("pads", [])) or case.node.attribute("auto_pad", b"NOTSET") != b"NOTSET"
        if padded or op.product_layout(case.node, weight.shape) is None or op.channel_layout is None:
            continue
        made = case.run(np.ones_like(case.x), {op.weight_input: weight, **without_bias(op, case)})[0]
        channels = np.moveaxis(made, op.channel_layout.axis, -1)
        rows = channels.reshape(-1, channels.shape[-1])
        assert np.allclose(rows, rows[:1], rtol=1e-4, atol=1e-5), case
        checked += 1
    assert checked


def test_an_error_of_a_transposed_convolution_shifts_some_places_only():
    """Why it is not among those: with a stride, some places of the result have a part of the kernel."""
    (case,) = (case for case in WRITTEN if case.node.attribute("strides"))
    assert not ops.product(case.node).sums_evenly
    made = case.run(np.ones_like(case.x))[0]
    assert not np.allclose(made, made[..., :1])


def test_products_that_take_a_batchnorm_have_their_channels_on_axis_1():
    for op in products():
        axis_1 = op.channel_layout is ChannelLayout.FIRST or op.activation_rank == 2
        assert not op.takes_batchnorm or (axis_1 and op.bias_input is not None), op.op_types
