"""The kernels of engines of the sample models: what build keeps, and what inspect reads."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

import qdqtool
from qdqtool.cli import command
from qdqtool.reports import json as json_report

DATA = ROOT / "tests" / "engines" / "tensorrt" / "data"
SLOW = pytest.mark.slow(reason="builds an engine for each sample model")
SAMPLES = ("digits_cnn", pytest.param("digits_depthwise", marks=SLOW), pytest.param("digits_transformer", marks=SLOW))
pytestmark = pytest.mark.builder


@pytest.fixture(scope="module", params=SAMPLES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A sample quantized to int8 and built: its name, the engine, the layer file and the report."""
    pytest.importorskip("tensorrt_rtx")
    folder, sample = tmp_path_factory.mktemp(request.param), ROOT / "sample_models" / request.param
    model, engine, layers = folder / "int8.onnx", folder / "e.engine", folder / "layers.json"
    qdqtool.quantize_model(sample / "model.onnx", sample / "calibration.npz", model, high_precision_dtype="fp32")
    report = qdqtool.build_engine(model, engine, backend="tensorrt-rtx", export_layer_info=layers, timeout=120)
    return request.param, engine, layers, report


@pytest.mark.slow(reason="builds an engine for each node")
def test_the_builder_prints_what_it_printed_before(built):
    """Where this fails with a new release: look at the difference, then store the new dump in
    tests/engines/tensorrt/data.
    """
    name, _, layers, _ = built
    assert json.loads(layers.read_text())["Dump"] == (DATA / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.slow(reason="builds several engines")
def test_build_and_inspect_say_the_same(built):
    _, engine, _, report = built
    found = qdqtool.inspect_engine(engine)
    assert (found.kernels, found.conversions) == (report.kernels, report.conversions)
    assert (found.bytes, found.version) == (report.bytes, report.version)
    encoded = json.loads(json_report.render(report))
    assert {"proven", "unknown"} == set(encoded["conversions"])
    assert {"name", "nodes", "inputs", "constants", "outputs", "bytes"} <= set(encoded["kernels"][0])


def test_the_engine_input_is_quantized_where_its_pair_is_the_first_node(built):
    name, engine, _, _ = built
    conversions = qdqtool.inspect_engine(engine).conversions
    proven = [(entry.kind, entry.qdq) for entry in conversions.proven]
    assert proven == ([] if name == "digits_transformer" else [("quantize", ("image_QuantizeLinear",))])


def test_every_unknown_tensor_leaves_a_stub(built):
    _, engine, _, _ = built
    found = qdqtool.inspect_engine(engine)
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert found.conversions.unknown
    for entry in found.conversions.unknown:
        writer, reader = by_name[entry.written_by], by_name[entry.read_by]
        assert not writer.generated
        assert reader.generated
        assert entry.tensor in {tensor.name for tensor in writer.outputs} & {tensor.name for tensor in reader.inputs}


def test_the_command_takes_the_engine_or_its_manifest(built):
    _, engine, _, _ = built
    for path in (engine, Path(f"{engine}.manifest.json")):
        result = CliRunner().invoke(command, ["inspect", str(path)])
        assert result.exit_code == 0, result.output
        assert "kernels, types from: aot-dump" in result.output


def test_a_profile_adds_times_whose_sums_are_exact(built, tmp_path: Path):
    """Times in 1/1024 ms have exact sums in binary."""
    _, engine, layers, report = built
    model, profile = engine.with_name("int8.onnx"), tmp_path / "profile.json"
    names = [each["Name"] for each in json.loads(layers.read_text())["Layers"]]
    times = [(3 * at + 1) / 1024 for at in range(len(names))]
    entries = [{"name": name, "averageMs": time} for name, time in zip(names, times, strict=True)]
    profile.write_text(json.dumps([{"count": 10}, *entries]))

    found = qdqtool.inspect_layers(layers, profile=profile, model=model)

    assert (found.evidence, found.runs, found.milliseconds) == ("aot-dump", 10, sum(times))
    assert [layer.milliseconds for layer in found.layers] == times
    assert sum(each.milliseconds for each in found.by_type) == sum(times)
    assert sum(each.layers for each in found.by_type) == len(names)
    products = [kernel.name for kernel in report.kernels if kernel.computes == "int8"]
    timed = dict(zip(names, times, strict=True))
    assert {node.kernel for node in found.nodes} <= set(products)
    assert [node.milliseconds for node in found.nodes] == [timed[node.kernel] for node in found.nodes]
    assert (found.planned, found.achieved) == (report.planned, report.achieved)
    of_int8 = [each.milliseconds for each in found.layers if each.computes == "int8"]
    assert next(each.milliseconds for each in found.by_type if each.kind == "int8") == sum(of_int8)
    of_manifest = qdqtool.inspect_layers(engine, profile=profile)  # without the tactics of the kernels
    assert of_manifest.milliseconds == found.milliseconds
    assert of_manifest.by_type == found.by_type


def test_the_command_takes_layers_engines_and_a_profile(built, tmp_path: Path):
    _, engine, layers, _ = built
    profile = tmp_path / "profile.json"
    names = [each["Name"] for each in json.loads(layers.read_text())["Layers"]]
    profile.write_text(json.dumps([{"count": 10}, *({"name": name, "averageMs": 0.5} for name in names)]))
    for path in (engine, layers):
        result = CliRunner().invoke(command, ["inspect", str(path), "--profile", str(profile)])
        assert result.exit_code == 0, result.output
        assert f"{0.5 * len(names):g} ms in one inference, the mean of 10" in result.output


def test_a_model_has_no_times(tmp_path: Path):
    profile = tmp_path / "profile.json"
    profile.write_text("[]")
    model = str(ROOT / "sample_models" / "digits_cnn" / "model.onnx")
    result = CliRunner().invoke(command, ["inspect", model, "--profile", str(profile)])
    assert isinstance(result.exception, qdqtool.errors.UsageError)
    assert "--profile and --model need the layers of an engine" in str(result.exception)
