"""What the terminal says of the kernels of an engine."""

from dataclasses import replace

from support.kernels import typed_kernel
from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.engine.conversions import Conversion, Conversions, UnknownConversion
from qdqtool.engine.engine_map import EngineMap, map_kernels
from qdqtool.report.text.engine_map import render

KERNEL = typed_kernel(
    name="mm", layer_type="gemm", inputs=["int8"], constants=["int8"], outputs=["float32"], nodes=("a", "b", "c")
)
STEP = Conversion(kind="quantize", kernel="k", from_types=("float32",), to_types=("int8",), qdq=("x_q",))
UNKNOWN = UnknownConversion(tensor="t", type="float32", bytes=4096, written_by="conv", read_by="relu")
REPORT = EngineMap(
    manifest="e.engine.manifest.json",
    engine="e.engine",
    bytes=2_500_000,
    model_sha256="",
    model="m.onnx",
    backend="tensorrt-rtx",
    version="1.7",
    targets=("8.9",),
    evidence="aot-dump",
    planned={"int8": 2, "float8e4m3fn": 1},
    achieved={"int8": 1},
    kernels=map_kernels([KERNEL]),
    conversions=Conversions(),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_the_head_names_the_engine_and_what_runs_as_planned():
    assert lines()[:6] == [
        "e.engine",
        "  2.5 MB, built from m.onnx",
        "  tensorrt-rtx 1.7; compute capability 8.9",
        "  1 of 2 planned int8 nodes run in int8 kernels",
        "  0 of 1 planned float8e4m3fn node runs in float8e4m3fn kernels",
        "  1 kernel, types from: aot-dump",
    ]


def test_a_kernel_has_a_row_with_its_types_and_bytes():
    row = next(line for line in lines() if line.startswith("mm"))
    assert cells(row) == [["mm", "a, b, … (3 in all)", "int8", "int8", "float32", "float32 1.02 kB, int8 512 bytes"]]
    open_kernels = tuple(replace(kernel, bytes=None) for kernel in REPORT.kernels)
    row = next(line for line in lines(kernels=open_kernels) if line.startswith("mm"))
    assert cells(row)[0][-1] == "not known"


def test_proven_and_unknown_are_counted_apart():
    fallback = replace(STEP, kind="float-operands", node="conv1", from_types=("float32",), to_types=("float32",))
    found = lines(conversions=Conversions(proven=(STEP, fallback), unknown=(UNKNOWN, replace(UNKNOWN, bytes=None))))
    assert found[-6:] == [
        "2 conversions proven",
        "  k quantizes: float32 -> int8, from x_q",
        "  k multiplies floats for conv1: float32 -> float32, from x_q",
        "2 float tensors unknown, not counted: at first use, the GPU decides whether they exist",
        "  conv -> relu: float32, 4.1 kB",
        "  conv -> relu: float32",
    ]
    lost = (replace(UNKNOWN, written_by=None),)
    assert lines(conversions=Conversions(unknown=lost))[-1] == "  an unknown kernel -> relu: float32, 4.1 kB"


def test_nothing_is_claimed_without_evidence():
    assert lines()[-1] == "0 conversions proven"
    assert lines(conversions=None)[-1].startswith("conversions between floats and codes are read from")
    assert lines(kernels=(), evidence="none")[-1].startswith("the builder gave no layer information")


def test_every_kernel_and_conversion_is_printed():
    found = lines(kernels=map_kernels([KERNEL] * 90), conversions=Conversions(proven=(STEP,) * 80))
    assert len([line for line in found if line.startswith("mm")]) == 90
    assert len([line for line in found if line.startswith("  k quantizes")]) == 80


def test_names_are_escaped():
    hostile = typed_kernel(name=HOSTILE, layer_type="gemm", inputs=[HOSTILE], nodes=(HOSTILE,))
    step = replace(STEP, kernel=HOSTILE, node=HOSTILE, qdq=(HOSTILE,))
    unknown = replace(UNKNOWN, written_by=HOSTILE, read_by=HOSTILE, type=HOSTILE)
    text = "\n".join(
        lines(
            engine=HOSTILE,
            model=HOSTILE,
            version=HOSTILE,
            kernels=map_kernels([hostile]),
            conversions=Conversions(proven=(step,), unknown=(unknown,)),
        )
    )
    assert HOSTILE not in text
    assert text.count(ESCAPED) >= 11
