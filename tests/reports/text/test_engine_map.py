"""What the terminal says of the kernels of an engine."""

from dataclasses import replace

from support.kernels import typed_kernel
from support.pictures import preprocessing
from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.engines.build.engine_map import EngineMap, Products, map_kernels
from qdqtool.engines.build.report import Conversion, Conversions, PlanEdit, SharedEntry, UnknownConversion
from qdqtool.engines.report import LayerMap, LayerTotal, MappedLayer, TimedNode
from qdqtool.models.report import Work
from qdqtool.reports.text.engine_map import SLOWEST, render, render_layers
from qdqtool.samples.calibration_note import CalibrationNote

KERNEL = typed_kernel(
    name="mm", layer_type="gemm", inputs=["int8"], constants=["int8"], outputs=["float32"], nodes=("a", "b", "c")
)
PRODUCTS = Products({0: 4_096})
STEP = Conversion(
    kind="quantize",
    kernel="k",
    from_types=("float32",),
    to_types=("int8",),
    qdq=("x_q",),
    edit=PlanEdit(options="--nodes-to-exclude a", nodes=("a",)),
)
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
    macs=Work(by_type={"float32": 1_000, "int8": 1_999_000}, weight_bytes={"bool": 0, "int8": 2_000}),
    kernels=map_kernels([KERNEL], PRODUCTS),
    conversions=Conversions(),
)


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


def test_the_head_names_the_engine_and_what_runs_as_planned():
    assert lines()[:8] == [
        "e.engine",
        "  2.5 MB, built from m.onnx",
        "  tensorrt-rtx 1.7; compute capability 8.9",
        "  1 of 2 planned int8 nodes run in int8 kernels",
        "  0 of 1 planned float8e4m3fn node runs in float8e4m3fn kernels",
        "  multiply-accumulates: 2 M in int8 (99.95%), 1 k in float32 (0.05%)",
        "  weights: 2 kB in int8",
        "  1 kernel, types from: aot-dump",
    ]


def test_the_head_says_how_the_model_was_calibrated():
    def told(**given: object) -> str:
        note = CalibrationNote(**{"method": "auto", "samples": 24, "random": False, "seed": None} | given)
        return next(line for line in lines(calibration=note) if "calibrated" in line)

    assert told() == "  calibrated with 24 samples (auto)"
    assert told(random=True, seed=1) == "  calibrated with 24 random samples (auto)"
    assert told(preprocessing=preprocessing((4, 6), resize="stretch")).startswith(
        "  calibrated with 24 samples (auto); images: stretch to 4x6, bilinear, rgb"
    )
    assert not [line for line in lines() if "calibrated" in line]


def test_a_kernel_has_a_row_with_its_types_and_bytes():
    row = next(line for line in lines() if line.startswith("mm"))
    assert cells(row) == [
        ["mm", "a, b, … (3 in all)", "int8", "int8", "float32", "int8 4.1 k", "float32 1.02 kB, int8 512 bytes"]
    ]
    open_kernels = tuple(replace(kernel, bytes=None) for kernel in REPORT.kernels)
    row = next(line for line in lines(kernels=open_kernels) if line.startswith("mm"))
    assert cells(row)[0][-1] == "not known"


def test_multiply_accumulates_that_are_not_known_are_said_to_be():
    unknown = tuple(replace(kernel, macs=None) for kernel in REPORT.kernels)
    macs = Work(by_type={}, unknown_kernels=("mm",), nodes_without_kernel=("a", "b", "c"))
    found = lines(kernels=unknown, macs=macs)
    assert found[5:7] == [
        "  multiply-accumulates of 1 kernel not known",
        "  no kernel names a, b, … (3 in all): multiply-accumulates not counted",
    ]
    assert cells(next(line for line in found if line.startswith("mm")))[0][5] == "int8 not known"
    idle = tuple(replace(kernel, macs=0, computes=None) for kernel in REPORT.kernels)
    assert "int8 4.1 k" not in "\n".join(lines(kernels=idle))


def test_proven_and_unknown_are_counted_apart():
    fallback = replace(STEP, kind="float-operands", node="conv1", from_types=("float32",), to_types=("float32",))
    found = lines(conversions=Conversions(proven=(STEP, fallback), unknown=(UNKNOWN, replace(UNKNOWN, bytes=None))))
    assert found[-8:] == [
        "2 conversions proven",
        "  k quantizes: float32 -> int8, from x_q",
        "    without it: quantize with `--nodes-to-exclude a`",
        "  k multiplies floats for conv1: float32 -> float32, from x_q",
        "    without it: quantize with `--nodes-to-exclude a`",
        "2 float tensors unknown, not counted: the GPU decides at first use whether they exist",
        "  conv -> relu: float32, 4.1 kB",
        "  conv -> relu: float32",
    ]
    lost = (replace(UNKNOWN, written_by=None),)
    assert lines(conversions=Conversions(unknown=lost))[-1] == "  an unknown kernel -> relu: float32, 4.1 kB"


def test_an_edit_of_a_plan_file_and_the_lack_of_an_edit_are_printed():
    shared = SharedEntry(tensor="r", consumers=("p", "y"))
    copy = replace(
        STEP, kind="float-copy", edit=PlanEdit(options="--nodes-to-exclude 'a b'", nodes=("a b",), shared=shared)
    )
    stays = replace(STEP, edit=None, no_edit="the graph's input is float")
    assert lines(conversions=Conversions(proven=(copy, stays)))[-5:] == [
        "  k writes codes and the same values as floats: float32 -> int8, from x_q",
        "    without it: quantize with `--nodes-to-exclude 'a b'`",
        "    or: in a plan file, one entry of r for p, y",
        "  k quantizes: float32 -> int8, from x_q",
        "    no edit of the plan removes it: the graph's input is float",
    ]


def test_nothing_is_claimed_without_evidence():
    assert lines()[-1] == "0 conversions proven"
    assert lines(conversions=None)[-1].startswith("conversions between floats and codes are unknown")
    assert lines(kernels=(), evidence="none")[-1].startswith("the builder gave no layer information")


def test_every_kernel_and_conversion_is_printed():
    found = lines(kernels=map_kernels([KERNEL] * 90, PRODUCTS), conversions=Conversions(proven=(STEP,) * 80))
    assert len([line for line in found if line.startswith("mm")]) == 90
    assert len([line for line in found if line.startswith("  k quantizes")]) == 80


LAYER = MappedLayer(
    name="conv",
    layer_type="CaskConvolution",
    nodes=("a", "b", "c"),
    reads=("int8",),
    constants=("int8",),
    writes=("float16",),
    computes="int8",
    conversion=None,
    milliseconds=1.5,
)
LAYERS = LayerMap(
    layer_file="layers.json",
    profile="profile.json",
    model=None,
    model_file=None,
    evidence="inspector",
    runs=1000,
    milliseconds=2.0,
    unmatched=(),
    unmatched_milliseconds=0.0,
    planned={},
    achieved={},
    nodes=(),
    by_type=(LayerTotal(kind="int8", layers=1, milliseconds=1.5), LayerTotal(kind="x", layers=1, milliseconds=0.5)),
    conversions=(),
    layers=(replace(LAYER, name="first", milliseconds=0.5), LAYER),
)
NODE = TimedNode(
    name="conv", op_type="Conv", planned="int8", actual="float32", kernel="k", reason="why", milliseconds=0.25
)


def of_layers(**changes: object) -> list[str]:
    return printed(render_layers, replace(LAYERS, **changes)).splitlines()


def test_the_slowest_layer_is_the_first_one_with_its_share():
    found = cells("\n".join(of_layers()))
    assert found[:3] == [
        ["layers.json"],
        ["2 layers, types from: inspector"],
        ["2 ms in one inference, the mean of 1,000"],
    ]
    assert found[4] == ["layer", "ONNX nodes", "kind", "computes in", "reads", "writes", "ms", "share"]
    row = ["a, b, … (3 in all)", "CaskConvolution", "int8", "int8", "float16"]
    assert found[5:7] == [["conv", *row, "1.5", "75.00%"], ["first", *row, "0.5", "25.00%"]]
    assert found[8:11] == [
        ["computes in", "layers", "ms", "share"],
        ["int8", "1", "1.5", "75.00%"],
        ["x", "1", "0.5", "25.00%"],
    ]


def test_layers_without_times_keep_their_order():
    found = of_layers(profile=None, runs=None, milliseconds=None, unmatched_milliseconds=None)
    assert [line.split()[0] for line in found[3:6]] == ["layer", "first", "conv"]
    assert not any("ms" in line for line in found)


def test_what_is_unknown_is_said():
    unknown = replace(LAYER, milliseconds=None)
    found = of_layers(layers=(unknown,), unmatched=("gone",), unmatched_milliseconds=0.5, evidence="none")
    assert found[3:6] == [
        "  without a time: 1 of 1 layer",
        "  not found in the layer file: 1 timed layer, 0.5 ms, which counts as unknown",
        "  types are unknown: the file has only names; trtexec needs --profilingVerbosity=detailed",
    ]


def test_conversions_have_their_share_of_the_time():
    reformat = replace(LAYER, name="r", conversion="reformat", milliseconds=0.25)
    total = LayerTotal(kind="float32 -> int8, reformat", layers=1, milliseconds=0.25)
    found = of_layers(
        layers=(LAYER, reformat, replace(LAYER, conversion="fused", milliseconds=1)), conversions=(total,)
    )
    assert "  reformats only: 1 layer, 0.25 ms, 12.50% of the time" in found
    assert "  conversions with other work: 1 layer, 1 ms, 50.00% of the time" in found
    assert cells(found[-1]) == [["float32 -> int8, reformat", "1", "0.25", "12.50%"]]
    assert "  reformats only: 1 layer, time unknown" in of_layers(layers=(replace(reformat, milliseconds=None),))


def test_nodes_that_do_not_run_as_planned_have_reason_and_time():
    found = of_layers(
        model="m.onnx",
        nodes=(NODE, replace(NODE, name="good", actual="int8")),
        planned={"int8": 2},
        achieved={"int8": 1},
    )
    assert "  1 of 2 planned int8 nodes run in int8 kernels" in found
    assert cells(found[-1]) == [["conv", "Conv", "int8", "float32", "k", "0.25", "why"]]
    doubtful = of_layers(model="m.onnx", nodes=(replace(NODE, actual="unknown"),), planned={"int8": 1}, achieved={})
    assert "  0 of 1 planned int8 node runs in int8 kernels; unknown for 1" in doubtful
    assert "  m.onnx plans no quantized node" in of_layers(model="m.onnx")


def test_long_lists_are_cut_and_hostile_names_escaped():
    layers = tuple(replace(LAYER, name=HOSTILE) for _ in range(SLOWEST + 3))
    found = of_layers(layers=layers)
    assert "  … and 3 more (JSON has all)" in found
    assert sum(ESCAPED in line for line in found) == SLOWEST
