"""What the terminal says of the times and the outputs of engines."""

from dataclasses import replace

from support.printed import ESCAPED, HOSTILE, cells, printed

from qdqtool.engines.gpu.clocks import Clocks
from qdqtool.engines.gpu.comparison import Speedup, SpeedupResult, compare_layers
from qdqtool.engines.gpu.report import BenchReport, EngineTimes, Loaded, RunReport
from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.engines.gpu.timing import Percentiles
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.reports.text.bench import SHOWN, render, render_run
from qdqtool.samples.report import DataDescription

GPU = Gpu(name="NVIDIA L4", compute_capability="8.9")
TIMES = Percentiles(count=500, p50=0.5, p90=0.625, p99=0.75, mean=0.55, min=0.25, max=1.5)
LAYERS = (LayerTime("k1", ("conv", "relu"), 0.125), LayerTime("k2", (), 0.375))
OTHERS = (LayerTime("f1", ("conv", "relu"), 0.0625), LayerTime("f2", (), 0.5))


def engine(
    file: str = "int8.engine", layers: tuple[LayerTime, ...] = LAYERS, times: Percentiles = TIMES
) -> EngineTimes:
    loaded = Loaded(file=file, library="tensorrt-rtx", version="1.7.1", gpu=GPU)
    return EngineTimes(engine=loaded, measured_by="gpu", times=times, clocks=(), layers=layers)


ALONE = BenchReport(
    passed=True,
    data=DataDescription("random", 1, 0, {"x": (1, 3)}),
    engine=engine(),
    against=None,
    speedup=None,
    gate=None,
    comparison=None,
    warnings=(),
    clocks_unknown="the package is absent",
)
COMPARED = replace(
    ALONE,
    passed=False,
    against=engine("float.engine", OTHERS, replace(TIMES, p50=0.55)),
    speedup=Speedup(ratio=1.1, lowest=1.05, highest=1.15),
    gate=SpeedupResult(gate=">=1.2x", passed=False, found="1.100x", slower_layers=()),
    comparison=compare_layers(LAYERS, OTHERS),
)


def test_one_engine_has_its_times_and_its_slowest_layers():
    text = printed(render, ALONE)
    assert text.splitlines()[:5] == [
        "bench int8.engine",
        "  with     tensorrt-rtx 1.7.1 on NVIDIA L4, compute capability 8.9",
        "  data     a random sample; x:1x3",
        "  times    between events on the GPU, without copies of inputs and outputs",
        "  clocks   not known: the package is absent",
    ]
    rows = cells(text)
    assert ["int8.engine", "0.5000", "0.6250", "0.7500", "0.2500", "1.5000", "500"] in rows
    assert rows.index(["k2", "0.3750", "75.0%"]) < rows.index(["k1", "0.1250", "25.0%", "conv, relu"])


def test_two_engines_have_a_speedup_and_the_layers_that_lose():
    text = printed(render, COMPARED)
    rows = cells(text)
    assert "slower than in the other engine: 1 of 1 group of layers\n" in text
    assert ["conv, relu", "0.1250", "0.0625", "0.0625"] in rows
    assert "only in this engine: 0.3750 ms in 1 layer: k2" in text
    assert "only in the other engine: 0.5000 ms in 1 layer: f2" in text
    assert text.splitlines()[-2:] == [
        "1.100 times as fast as float.engine (1.050 to 1.150 in single rounds)",
        "gate >=1.2x: MISSED, 1.100x",
    ]


def test_where_no_layer_is_slower_a_missed_gate_names_those_that_gain_least():
    slow = tuple(replace(layer, milliseconds=2.0) for layer in OTHERS)
    faster = replace(COMPARED, comparison=compare_layers(LAYERS, slow))
    text = printed(render, faster)
    assert "0 of 1 group of layers; the groups with the smallest gain:" in text
    assert ["conv, relu", "0.1250", "2.0000", "-1.8750"] in cells(text)
    assert "those that gain least" not in printed(render, replace(faster, passed=True))


def test_a_gate_that_is_met_and_unknown_layers():
    report = replace(
        COMPARED,
        engine=engine(layers=()),
        comparison=None,
        gate=SpeedupResult(gate=">=1x", passed=True, found="1.100x", slower_layers=()),
    )
    text = printed(render, report)
    assert "layers   not known: tensorrt-rtx does not report their times" in text
    assert text.splitlines()[-1] == "gate >=1x: passed, 1.100x"


def test_clocks_are_a_span_and_few_times_have_no_99th_percentile():
    clocked = replace(engine(times=replace(TIMES, p99=None)), clocks=(Clocks(1500, 7000), Clocks(1800, 7000)))
    text = printed(render, replace(ALONE, engine=clocked, warnings=("clocks differ",)))
    assert "  clocks   1500 to 1800 MHz, memory 7000 MHz, after each round" in text
    assert "  warning: clocks differ" in text
    assert ["int8.engine", "0.5000", "0.6250", "-", "0.2500", "1.5000", "500"] in cells(text)


def test_long_lists_are_cut_unless_all_is_asked_for():
    layers = tuple(LayerTime(f"k{number}", (), 1.0) for number in range(SHOWN + 5))
    report = replace(ALONE, engine=engine(layers=layers))
    assert f"k{SHOWN + 4}" not in printed(render, report)
    assert f"k{SHOWN + 4}" in printed(render, report, verbose=True)


def test_strings_of_files_are_escaped():
    layers = (LayerTime(HOSTILE, (HOSTILE,), 1.0),)
    text = printed(render, replace(ALONE, engine=engine(HOSTILE, layers), clocks_unknown=HOSTILE))
    assert "\x1b" not in text
    assert text.count(ESCAPED) == text.count("evil") >= 5
    both = replace(COMPARED, engine=engine(HOSTILE, layers), comparison=compare_layers(layers, layers))
    assert "\x1b" not in printed(render, both)


def test_strings_of_a_run_are_escaped():
    gpu = Gpu(name=HOSTILE, compute_capability="8.9")
    report = RunReport(
        engine=Loaded(file=HOSTILE, library="tensorrt", version="11", gpu=gpu),
        data=DataDescription(HOSTILE, 1, None, {}),
        output=HOSTILE,
        outputs={HOSTILE: (1, 2)},
    )
    text = printed(render_run, report)
    assert text.count(ESCAPED) == text.count("evil") == 5
    assert f"  output   {ESCAPED}: 1x2" in text
    assert "1 sample\n" in text
