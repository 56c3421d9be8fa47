"""What each GPU that is asked for has no hardware for."""

import pytest
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QT401"


def model() -> RuleContext:
    """Pairs of fp8, int8 and uint8, and a bfloat16 scale."""
    return read(
        """
        agraph (float[4] x, bfloat16[4] b) => (float[4] y, float[4] i, bfloat16[4] bi, float[4] u)
        <float s = {0.5}, float8e4m3fn f = {0}, int8 z = {0}, uint8 n = {0}, bfloat16 bs = {15821}> {
            fq = QuantizeLinear (x, s, f)
            y = DequantizeLinear (fq, s, f)
            iq = QuantizeLinear (x, s, z)
            i = DequantizeLinear (iq, s, z)
            bq = QuantizeLinear (b, bs, z)
            bi = DequantizeLinear (bq, bs, z)
            uq = QuantizeLinear (x, s, n)
            u = DequantizeLinear (uq, s, n)
        }
        """
    )


def lacks(gpu: str, name: str, count: int) -> str:
    return f"compute capability {gpu} has no type {name}, which {count} Q/DQ nodes use"


@pytest.mark.parametrize(
    ("target", "asked", "found"),
    [
        ("tensorrt", (), []),
        ("tensorrt", (89,), []),
        ("tensorrt", (88,), [lacks("8.8", "float8e4m3fn", 2)]),
        ("tensorrt", (80,), [lacks("8.0", "float8e4m3fn", 2)]),
        ("tensorrt", (79,), [lacks("7.9", "float8e4m3fn", 2), lacks("7.9", "bfloat16", 2)]),
        ("tensorrt", (75, 89), [lacks("7.5", "float8e4m3fn", 2), lacks("7.5", "bfloat16", 2)]),
        ("tensorrt", (0,), [lacks("0.0", "float8e4m3fn", 2), lacks("0.0", "int8", 4), lacks("0.0", "bfloat16", 2)]),
        ("tensorrt", (200,), []),
        ("tensorrt-10.7", (90,), []),
        ("tensorrt-10.7", (91,), ["TensorRT 10.7 cannot build for compute capability 9.1"]),
        ("tensorrt-10.7", (89,), []),
        ("tensorrt-rtx", (110,), ["TensorRT for RTX cannot build for compute capability 11.0 (Jetson Thor)"]),
    ],
)
def test_what_a_gpu_lacks(target: str, asked: tuple[int, ...], found: list[str]):
    assert [finding.message for finding, _ in located(CODE, model(), target, asked)] == found


def test_a_gpu_that_nothing_can_be_built_for_does_not_hide_the_next_one():
    found = [(finding.found, finding.expected) for finding, _ in located(CODE, model(), "tensorrt-rtx", (70, 87, 86))]

    every = "7.5, 8.0, 8.6, 8.9, 12.0, 12.1"
    assert found == [("7.0", every), ("8.7", every), ("float8e4m3fn", "compute capability 8.9 or later")]


def test_what_is_too_new_is_told_the_newest():
    ((finding, _),) = located(CODE, model(), "tensorrt-10.7", (100,))

    assert (finding.found, finding.expected, finding.node) == ("10.0", "9.0 or earlier", None)


def test_the_first_node_of_a_type_is_named():
    ((finding, _),) = located(CODE, model(), "tensorrt", (86,))

    assert (finding.node, finding.tensor, finding.found) == ("QuantizeLinear -> fq", "x", "float8e4m3fn")
