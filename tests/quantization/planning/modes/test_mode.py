"""The modes as data: their formats and blocks, and which operators and targets they are for."""

import onnx
import pytest
from support.refusals import refused

from qdqtool.errors import ArgumentError
from qdqtool.models import ops
from qdqtool.numerics.granularity import Blocked, PerTensor
from qdqtool.quantization.planning import modes

MODES = {
    "int8": ("int8", "int8", (), None, False),
    "fp8": ("float8e4m3fn", "float8e4m3fn", (), None, False),
    "int8-weight-only": ("int8", None, (), None, False),
    "fp8-weight-only": ("float8e4m3fn", None, (), None, False),
    "int4": ("int4", None, (128, 64, 32), None, True),
    "nvfp4": ("float4e2m1", None, (16,), "float8e4m3fn", True),
    "mxfp8": ("float8e4m3fn", None, (32,), "float8e8m0", False),
}
"""In the order of texts: weights, activations, blocks, scales, and whether scales are searched for."""


def test_every_mode_has_the_formats_and_blocks_of_the_guide():
    modes.get.cache_clear()
    found = {
        name: (mode.weights, mode.activations, mode.blocks, mode.scale_format, mode.search)
        for name, mode in ((name, modes.get(name)) for name in modes.in_order())
    }
    assert found == MODES
    assert list(found) == list(MODES)


def test_every_signed_type_of_quantizelinear_is_a_mode():
    """By the schema of ONNX. Unsigned types would need zero points."""
    modes.names.cache_clear()
    outputs = onnx.defs.get_schema("QuantizeLinear").outputs[0].types
    types = {text.removeprefix("tensor(").removesuffix(")") for text in outputs}
    signed = {name for name in types if not name.startswith("uint") and name != "float8e8m0"}
    assert set(modes.names()) - set(modes.units()) == signed - {"int4", "int8"}
    assert modes.names()[: len(MODES)] == modes.units()
    assert len(set(modes.names())) == len(modes.names())


@pytest.mark.parametrize("name", modes.names())
def test_a_mode_says_whether_activations_are_integers(name):
    mode = modes.get(name)
    assert mode.needs_ranges == (name not in MODES or name in {"int8", "fp8"})
    assert mode.integer_activations == (mode.needs_ranges and mode.weights.startswith("int"))
    if mode.needs_ranges:
        assert mode.activation_format.name == mode.activations
    else:
        with pytest.raises(ValueError, match="activations stay float"):
            _ = mode.activation_format


@pytest.mark.parametrize(
    ("name", "packed"),
    [("int4", {"MatMul", "Gemm"}), ("nvfp4", {"MatMul", "Gemm"}), ("int8-weight-only", {"MatMul", "Gemm", "Conv"})],
)
def test_blocks_are_for_matrix_products_and_channels_for_convolutions_too(name, packed):
    products = [family for family in ops.families() if isinstance(family, ops.ProductOp)]
    assert {op for family in products for op in family.op_types if modes.get(name).packs(family)} == packed


def test_block_sizes_are_those_of_the_mode():
    int4, int8 = modes.get("int4"), modes.get("int8-weight-only")
    assert [int4.block_size(asked) for asked in (None, 32, 64, 128)] == [128, 32, 64, 128]
    assert int8.block_size(None) is None
    with refused(ArgumentError, "block_size is 16; legal for this mode: 32, 64, 128"):
        int4.block_size(16)
    with pytest.raises(ArgumentError) as caught:
        int8.block_size(32)
    told = "block_size is set, but this mode has one scale for each output channel"
    assert caught.value.message == told


def test_the_example_for_targets_has_the_blocks_of_the_mode():
    schemes = {name: modes.get(name).example_scheme() for name in ("int4", "nvfp4", "int8")}
    assert [each.granularity for each in schemes.values()] == [Blocked(0, 128), Blocked(0, 16), PerTensor()]
    inner = schemes["nvfp4"].scale_scheme
    assert (inner.format.name, inner.granularity) == ("float8e4m3fn", PerTensor())
    assert schemes["int4"].scale_scheme is None
