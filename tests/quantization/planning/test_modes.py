"""The catalogue of modes: what texts list, and which mode a number format means, follow from the modules alone."""

import pytest

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.quantization.planning import modes


def test_every_mode_is_listed_once_the_default_first():
    assert sorted(modes.in_order()) == list(modes.units())
    assert modes.in_order()[0] == modes.DEFAULT


def test_a_number_format_means_the_first_mode_whose_scales_are_plain():
    found = [modes.with_weights(name) for name in ("int8", "float8e4m3fn", "int4", "float4e2m1")]
    assert found == ["int8", "fp8", "int4", None]


def test_few_bits_come_first():
    bits = [modes.get(name).weight_format.bits for name in modes.of_few_bits()]
    assert bits == sorted(bits)
    assert {"nvfp4", "mxfp8"}.isdisjoint(modes.of_few_bits())


def test_a_fallback_quantizes_what_the_mode_quantizes():
    for name in modes.units():
        mode = modes.get(name)
        for number_format in modes.FALLBACKS:
            if mode.weights == modes.get(number_format).weights:
                with pytest.raises(UsageError, match=f"fallback '{number_format}' is the format of quantize mode"):
                    modes.fallback(name, number_format)
            else:
                found = modes.get(modes.fallback(name, number_format))
                assert found.weights == modes.get(number_format).weights
                assert found.needs_ranges == mode.needs_ranges
                assert not found.blocks, "TensorRT for RTX has no kernels for int8 and fp8 in blocks"


@pytest.mark.parametrize("unknown", ["int4", "fp16", "", "Int8"])
def test_other_fallbacks_are_refused(unknown: str):
    with pytest.raises(ArgumentError) as caught:
        modes.fallback("int8", unknown)
    assert caught.value.message == f"fallback '{unknown}' is unknown; legal: int8, fp8"
    assert (caught.value.hint is not None) == (unknown == "fp16")
