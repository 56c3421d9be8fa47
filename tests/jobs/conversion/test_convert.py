"""Whole conversions: the gates of each step, the files, the data of the check, and paths in reports."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.pictures import picture, save_picture
from support.printed import printed
from support.small import make_model

import qdqtool as qdq
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.precision_gate import parse_gate
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import ArgumentError, CapabilityError, UsageError
from qdqtool.jobs.conversion import convert as convert_job
from qdqtool.jobs.conversion.options import ConvertOptions
from qdqtool.jobs.conversion.steps import relocated
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.linting.policy import Policy
from qdqtool.quantization.planning.options import Existing, HighPrecision
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.reports.page.write import page_of_document, write_page
from qdqtool.reports.text.convert import render
from qdqtool.samples.media_options import ImageOptions
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.request import FileData
from qdqtool.samples.split import split_samples

NO_ENGINE = ConvertOptions(build=None)
STEPS = ["quantize", "validate", "check", "build"]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float model of two products, and twenty samples for it."""
    folder = tmp_path_factory.mktemp("stock")
    random = np.random.default_rng(7)
    weights = {name: random.normal(size=(64, 64)).astype(np.float32) / 8 for name in ("w", "v")}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    onnx.save(make_model(nodes, {"x": (4, 64)}, {"y": (4, 64)}, weights), folder / "net.onnx")
    np.savez(folder / "data.npz", x=random.normal(size=(80, 64)).astype(np.float32))
    np.savez(folder / "other.npz", x=random.normal(size=(12, 64)).astype(np.float32))
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def states(report: qdq.ConversionReport) -> list[str]:
    assert [each.step for each in report.steps] == STEPS
    return [each.state for each in report.steps]


def converted(
    model: Path | qdq.Model, data: Path | FileData | None, output: Path, options: ConvertOptions
) -> qdq.ConversionReport:
    source = FileData(path=data) if isinstance(data, Path) else data
    return convert_job.convert(model, source, output, options, page=page_of_document)


def convert(stock: Path, output: Path, options: ConvertOptions = NO_ENGINE) -> qdq.ConversionReport:
    return converted(stock / "net.onnx", stock / "data.npz", output, options)


def test_files_and_report_agree_and_are_the_same_every_time(stock: Path, tmp_path: Path):
    report = convert(stock, tmp_path / "out")
    first = digests(tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "report.json").read_text())

    assert states(report) == ["passed", "passed", "passed", "not asked for"]
    assert stored == json.loads(json.dumps(json.loads(report.encode())))
    assert {each["name"]: each["sha256"] for each in stored["files"]} == {
        name: digest for name, digest in first.items() if name not in {"report.json", "report.html"}
    }
    assert sorted(first) == [
        "net.int8.onnx",
        "net.int8.plan.json",
        "net.int8.ranges.json",
        "report.html",
        "report.json",
    ]
    write_page([tmp_path / "out" / "report.json"], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "out" / "report.html").read_bytes()
    assert convert(stock, tmp_path / "out").removed == ()
    assert digests(tmp_path / "out") == first


def test_images_are_drawn_as_the_network_sees_them_in_the_page_too(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    for number in range(6):
        save_picture(tmp_path / f"photos/{number}.png", picture(20, 30, seed=number))
    weights = {"w": np.random.default_rng(1).normal(size=(16, 3, 3, 3)).astype(np.float32)}
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    onnx.save(make_model([node], {"x": (1, 3, "h", "w")}, {"y": (1, 16, "a", "b")}, weights), tmp_path / "net.onnx")
    data = FileData(path=tmp_path / "photos", options=ReadOptions(images=ImageOptions(preset="unit")))
    recipe = replace(NO_ENGINE.quantize.recipe, input_shapes={"x": (1, 3, 16, 16)})

    options = replace(NO_ENGINE, quantize=replace(NO_ENGINE.quantize, recipe=recipe))
    report = converted(tmp_path / "net.onnx", data, tmp_path / "out", options)
    drawn = tmp_path / "out" / "net.int8.preview.png"
    assert [each.name for each in report.files if each.what == "preview"] == [drawn.name]
    shown = base64.b64encode(drawn.read_bytes()).decode()
    assert f'src="data:image/png;base64,{shown}"' in (tmp_path / "out/report.html").read_text()
    write_page([tmp_path / "out/report.json"], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "out/report.html").read_bytes()

    drawn.write_bytes(drawn.read_bytes() + b"another picture")
    write_page([tmp_path / "out/report.json"], tmp_path / "page.html")
    assert "data:image/png" not in (tmp_path / "page.html").read_text()


def test_the_reports_are_those_of_the_commands(stock: Path, tmp_path: Path):
    """The oracle are the four functions on the files that the conversion left."""
    report = convert(stock, tmp_path / "out")
    model = tmp_path / "out" / "net.int8.onnx"
    found = {each["step"]: each["report"] for each in report.to_dict()["steps"]}
    held = split_samples(20).held
    samples = np.load(stock / "data.npz")["x"].reshape(20, 4, 64)
    np.savez(tmp_path / "held.npz", x=samples[list(held)].reshape(-1, 64))
    checked = qdq.check_model(model, baseline=stock / "net.onnx", data=tmp_path / "held.npz")

    assert found["quantize"]["output"] == str(model)
    assert found["validate"]["models"][0]["path"] == str(model)
    assert found["validate"]["summary"]["errors"] == qdq.validate_model(model).summary.errors
    assert found["check"]["outputs"][0]["sqnr_db"] == checked.outputs[0].sqnr_db
    assert (report.measured_on.part, report.measured_on.samples) == ("held back", len(held)) == ("held back", 4)
    assert ".convert-" not in (tmp_path / "out" / "report.json").read_text()


def test_validation_data_measures(stock: Path, tmp_path: Path):
    options = ConvertOptions(quantize=QuantizeOptions(validation_data=FileData(path=stock / "other.npz")), build=None)
    measured = convert(stock, tmp_path / "out", options).measured_on

    assert (measured.data, measured.part, measured.samples) == (str(stock / "other.npz"), "validation data", 3)


def test_samples_that_chose_are_said_to_have_chosen(stock: Path, tmp_path: Path):
    few = FileData(path=stock / "data.npz", samples=3)
    measured = converted(stock / "net.onnx", few, tmp_path / "out", NO_ENGINE).measured_on

    assert (measured.part, measured.samples, measured.reason) == ("all", 3, "too few to hold any out")


def test_weights_alone_need_no_data(stock: Path, tmp_path: Path):
    recipe = Recipe(quantize_mode="int8-weight-only")
    options = ConvertOptions(quantize=QuantizeOptions(recipe=recipe), build=None)
    report = converted(stock / "net.onnx", None, tmp_path / "out", options)

    assert report.passed
    assert report.measured_on.part == "random"
    assert sorted(digests(tmp_path / "out")) == [
        "net.int8-weight-only.onnx",
        "net.int8-weight-only.plan.json",
        "report.html",
        "report.json",
    ]


def test_a_missed_limit_ends_it_and_takes_the_files_of_an_earlier_one_away(stock: Path, tmp_path: Path):
    folder = tmp_path / "out"
    convert(stock, folder)
    (folder / "notes.txt").write_text("mine")
    weights = QuantizeOptions(recipe=Recipe(quantize_mode="int8-weight-only"))
    strict = ConvertOptions(quantize=weights, check=CheckOptions(gates=Gates(min_sqnr=200.0)))
    pytest.importorskip("tensorrt_rtx")
    report = convert(stock, folder, strict)

    assert states(report) == ["passed", "passed", "failed", "not reached"]
    assert (report.exit_code, report.step("check").missed) == (1, ("min-sqnr",))
    assert set(report.removed) == {"net.int8.onnx", "net.int8.plan.json", "net.int8.ranges.json"}
    assert sorted(digests(folder)) == [
        "net.int8-weight-only.onnx",
        "net.int8-weight-only.plan.json",
        "notes.txt",
        "report.html",
        "report.json",
    ]


def test_a_search_without_success_leaves_a_report_alone(stock: Path, tmp_path: Path):
    goal = AccuracyGoal(min_sqnr_db=200.0)
    options = ConvertOptions(quantize=QuantizeOptions(goal=goal), build=None)
    report = convert(stock, tmp_path / "out", options)

    assert states(report) == ["failed", "not reached", "not reached", "not asked for"]
    assert report.exit_code == 1
    assert list(digests(tmp_path / "out")) == ["report.html", "report.json"]


def test_findings_end_it(stock: Path, tmp_path: Path):
    """TensorRT 10.0 has no float4: the policy is for another target than the model."""
    weights = QuantizeOptions(recipe=Recipe(quantize_mode="nvfp4"))
    policy = Policy(targets=("tensorrt-10.0",))
    options = ConvertOptions(quantize=weights, policy=policy, build=None)
    report = converted(stock / "net.onnx", None, tmp_path / "out", options)
    direct = qdq.validate_model(tmp_path / "out" / "net.nvfp4.onnx", ["tensorrt-10.0"])

    assert direct.summary.errors > 0
    assert states(report) == ["passed", "failed", "not reached", "not asked for"]
    assert report.step("validate").report.summary == direct.summary


def test_findings_of_a_path_are_those_of_the_final_path(stock: Path, tmp_path: Path):
    weights = QuantizeOptions(recipe=Recipe(quantize_mode="nvfp4"))
    ignores = {"out/net.nvfp4.onnx": ("ALL",)}
    policy = Policy(targets=("tensorrt-10.0",), per_model_ignores=ignores, folder=tmp_path)
    options = ConvertOptions(quantize=weights, policy=policy, build=None)

    assert converted(stock / "net.onnx", None, tmp_path / "out", options).passed
    assert not converted(stock / "net.onnx", None, tmp_path / "elsewhere", options).passed


@pytest.mark.builder
def test_an_engine_comes_with_its_manifest(stock: Path, tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    options = ConvertOptions(build=BuildOptions(compute_capabilities=("8.9",)))
    report = convert(stock, tmp_path / "out", options)

    assert states(report) == ["passed"] * 4
    assert {each.what for each in report.files} == {"model", "plan", "ranges", "engine", "manifest"}
    assert qdq.verify_engine(tmp_path / "out" / "net.int8.engine").passed
    assert report.step("build").document()["report"]["seconds"] is None


@pytest.mark.builder
def test_a_missed_precision_leaves_no_engine(stock: Path, tmp_path: Path):
    """Products with weights of 8 bits and float activations run in float kernels."""
    pytest.importorskip("tensorrt_rtx")
    gate = parse_gate("int8>=100%")
    recipe = Recipe(quantize_mode="int8-weight-only")
    build = BuildOptions(compute_capabilities=("8.9",), require_precision=(gate,))
    options = ConvertOptions(quantize=QuantizeOptions(recipe=recipe), build=build)
    report = convert(stock, tmp_path / "out", options)

    assert states(report) == ["passed", "passed", "passed", "failed"]
    assert report.step("build").missed == ("require-precision int8>=100%",)
    assert not (tmp_path / "out" / "net.int8-weight-only.engine").exists()


@pytest.mark.parametrize("data", ["absent.npz", "net.onnx"])
def test_wrong_data_leave_the_folder_as_it_was(stock: Path, tmp_path: Path, data: str):
    with pytest.raises(UsageError):
        converted(stock / "net.onnx", stock / data, tmp_path / "out", NO_ENGINE)
    assert list(tmp_path.iterdir()) == []

    convert(stock, tmp_path / "out")
    before = digests(tmp_path / "out")
    with pytest.raises(UsageError):
        converted(stock / "net.onnx", stock / data, tmp_path / "out", NO_ENGINE)
    assert digests(tmp_path / "out") == before


def test_what_later_steps_would_refuse_is_refused_at_once(stock: Path, tmp_path: Path):
    for options in (
        ConvertOptions(policy=Policy(targets=("tensorrt-8",)), build=None),
        ConvertOptions(known_findings=tmp_path / "absent.json", build=None),
        ConvertOptions(check=CheckOptions(gates=Gates(min_cosine=2.0)), build=None),
        ConvertOptions(check=CheckOptions(gates=Gates(max_metric_loss=2.0)), build=None),
        ConvertOptions(quantize=QuantizeOptions(recipe=Recipe(target="ort-cpu"))),
        ConvertOptions(build=BuildOptions(require_precision=(parse_gate("fp8>=90%"),))),
    ):
        with pytest.raises(UsageError):
            convert(stock, tmp_path / "out", options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["tensorrt", "tensorrt-10.3"])
def test_a_gpu_that_the_builder_lacks_is_told_before_anything_else(
    target: str, stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The target is for a Jetson Orin, and the builder that is installed is not."""
    monkeypatch.setattr(TensorRT, "is_installed", lambda builder: builder.id == "tensorrt-rtx")
    recipe, build = Recipe(target=target), BuildOptions(compute_capabilities=("8.7",))
    options = ConvertOptions(quantize=QuantizeOptions(recipe=recipe), build=build)
    with pytest.raises(UsageError, match=r"cannot build for compute capability 8\.7 \(Jetson Orin\)") as caught:
        convert(stock, tmp_path / "out", options)

    assert str(caught.value.hint).startswith("`--no-build` converts without an engine; it builds for 7.5, 8.0")
    assert not (tmp_path / "out").exists()
    assert replace(options, build=None).builder() is None


def test_an_absent_builder_is_told_before_anything_else(stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from qdqtool.engines.tensorrt.backends import tensorrt_rtx

    def absent(*_: object) -> None:
        raise CapabilityError("TensorRT for RTX is not installed", hint="`pip install tensorrt-rtx`")

    monkeypatch.setattr(type(tensorrt_rtx.BUILDER), "require", absent)
    monkeypatch.setattr(type(tensorrt_rtx.BUILDER), "is_installed", lambda _: False)
    options = ConvertOptions(backend="tensorrt-rtx")
    with pytest.raises(CapabilityError) as caught:
        converted(stock / "absent.onnx", None, tmp_path / "out", options)
    assert caught.value.hint.startswith("`--no-build`")
    assert "pip install" in caught.value.hint


def test_options_that_a_conversion_gives_itself_are_refused(tmp_path: Path):
    with pytest.raises(ArgumentError, match="sets ranges_file or plan_file"):
        ConvertOptions(quantize=QuantizeOptions(plan_file=tmp_path / "p.json"))
    with pytest.raises(ArgumentError, match="does not exist yet"):
        ConvertOptions(check=CheckOptions(engine=tmp_path / "e.engine"))


def test_the_model_may_lie_in_the_folder_and_is_not_touched(stock: Path, tmp_path: Path):
    model = tmp_path / "net.onnx"
    model.write_bytes((stock / "net.onnx").read_bytes())
    before = digests(tmp_path)
    converted(model, stock / "data.npz", tmp_path, NO_ENGINE)

    assert digests(tmp_path)["net.onnx"] == before["net.onnx"]
    assert len(digests(tmp_path)) == 6


def test_a_model_in_memory_is_called_model(stock: Path, tmp_path: Path):
    given = qdq.load_model(stock / "net.onnx")
    given.path = None
    converted(given, stock / "data.npz", tmp_path / "out", NO_ENGINE)

    assert "model.int8.onnx" in digests(tmp_path / "out")


def test_a_model_that_is_quantized_already_goes_through_as_it_is(stock: Path, tmp_path: Path):
    convert(stock, tmp_path / "out")
    keep = QuantizeOptions(recipe=Recipe(existing=Existing.KEEP))
    options = ConvertOptions(quantize=keep, build=None)
    given = tmp_path / "out" / "net.int8.onnx"
    report = converted(given, stock / "data.npz", tmp_path / "kept", options)

    assert states(report) == ["passed", "passed", "passed", "not asked for"]
    assert report.measured_on.part == "held back"
    assert sorted(digests(tmp_path / "kept")) == ["net.int8.int8.onnx", "report.html", "report.json"]
    assert "nothing was left to quantize: the model is written unchanged" in printed(render, report)
    half = QuantizeOptions(recipe=Recipe(existing=Existing.KEEP, high_precision=HighPrecision.FP16))
    report = converted(given, stock / "data.npz", tmp_path / "half", ConvertOptions(quantize=half, build=None))
    assert states(report) == ["passed", "passed", "passed", "not asked for"]
    assert re.search("nothing was left to quantize: [1-9] nodes in half precision", printed(render, report))
    with pytest.raises(UsageError, match="quantized already"):
        converted(given, stock / "data.npz", tmp_path / "refused", NO_ENGINE)


@dataclass(frozen=True, slots=True)
class Inner:
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outer:
    path: str
    inner: Inner
    by_name: dict[str, list[str]]
    count: int = 3


def test_paths_are_replaced_at_any_depth():
    found = Outer("out/.tmp-1/a.onnx", Inner(("out/.tmp-1/b", "c")), {"k": ["`run 'a b/.tmp-1/m'`"]})
    kept = Outer("out/a.onnx", Inner(("out/b", "c")), {"k": ["`run 'a b/m'`"]})

    assert relocated(found, Path("out/.tmp-1")) == kept
    assert found.path == "out/.tmp-1/a.onnx"


def test_the_working_directory_itself():
    assert relocated(".tmp-1/a.onnx", Path(".tmp-1")) == "a.onnx"
