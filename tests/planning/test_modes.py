"""The catalogue of modes: what texts list, and which mode a number format means, follow from the modules alone."""

from qdqtool.planning import modes


def test_every_mode_is_listed_once_the_default_first():
    assert sorted(modes.in_order()) == list(modes.units())
    assert modes.in_order()[0] == modes.DEFAULT


def test_a_number_format_means_the_first_mode_whose_scales_are_plain():
    assert modes.with_weights("int8") == "int8"
    assert modes.with_weights("float8e4m3fn") == "fp8"
    assert modes.with_weights("int4") == "int4"
    assert modes.with_weights("float4e2m1") is None


def test_few_bits_come_first():
    bits = [modes.get(name).weight_format.bits for name in modes.of_few_bits()]
    assert bits == sorted(bits)
    assert {"nvfp4", "mxfp8"}.isdisjoint(modes.of_few_bits())
