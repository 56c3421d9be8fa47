"""A model with an operator of onnxruntime-extensions goes through the commands with its library, and fails without."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support.command import qdqtool, qdqtool_process
from support.custom_ops import between, in_a_body, in_a_function, library, stand_in

import qdqtool as qdq
from qdqtool.errors import ArgumentError, CapabilityError
from qdqtool.models.running.custom_operators import CustomOperators, active

UNKNOWN = "error: ONNX Runtime {} does not know operator ai.onnx.contrib::NegPos of node 'custom'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(between(), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(6).normal(size=(8, 4, 16)).astype(np.float32))
    return tmp_path


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The libraries that sessions load; none is loaded really."""
    found: list[str] = []
    monkeypatch.setattr(
        onnxruntime.SessionOptions, "register_custom_ops_library", lambda _, path: found.append(path), raising=False
    )
    return found


@pytest.mark.slow(reason="runs four commands with and without the library")
@pytest.mark.parametrize("make", [between, in_a_body, in_a_function])
def test_quantize_check_sensitivity_and_strip_work_with_the_library_and_fail_in_one_line_without(make, folder: Path):
    onnx.save(make(), folder / "m.onnx")
    data, operators = ("--calib-data", "data.npz"), ("--ort-custom-ops", library())
    steps = (
        ("quantize", "m.onnx", *data, "-o", "q.onnx"),
        ("check", "q.onnx", "--baseline", "m.onnx", "--data", "data.npz"),
        ("sensitivity", "m.onnx", *data),
        ("strip", "q.onnx", "-o", "s.onnx"),
        ("calibrate", "m.onnx", *data, "-o", "r.json"),
        ("cast", "m.onnx", *data, "-o", "half.onnx"),
        ("normalize", "q.onnx", "-o", "n.onnx"),
        ("convert", "m.onnx", *data, "--no-build", "-o", "out"),
    )
    for words in steps:
        done = qdqtool(*words, *operators, "--output-format", "json", cwd=folder)
        assert done.code == 0, (words, done.out, done.err)
        if words[0] == "quantize":
            report = json.loads(done.out)
            assert not report["skipped"]
            assert sum(pair["kind"] == "weight" for pair in report["quantized"]) == 3
        if words[0] == "check":
            assert [each["library"] for each in json.loads(done.out)["reference"]["custom_ops"]] == [str(library())]
    for words in steps:
        done = qdqtool(*words, cwd=folder)
        # These two change no value, and run nothing if the model cannot be run.
        if words[0] in {"strip", "normalize"}:
            assert done.code == 0
            continue
        assert done.code == 4, words
        error, hint = done.err.splitlines(keepends=True)[-2:]
        # A function that was inlined numbers its nodes.
        assert error.replace("custom__1", "custom") == UNKNOWN.format(onnxruntime.__version__)
        assert hint.startswith("hint: `--ort-custom-ops LIB`")


def test_no_file_names_a_library(folder: Path, loaded: list[str]):
    """Models, recipes and settings are data; the command line and Python alone name what runs code."""
    proto = onnx.load(folder / "m.onnx")
    for key in ("ort-custom-ops", "ort_custom_ops", "ort_config"):
        proto.metadata_props.add(key=key, value=str(library()))
    onnx.save(proto, folder / "m.onnx")
    line = f"ort-custom-ops = ['{library()}']\n"
    (folder / "recipe.toml").write_text(line, encoding="utf-8")
    recipe = ("convert", "m.onnx", "--calib-data", "data.npz", "--no-build", "-o", "out", "--recipe", "recipe.toml")
    assert "ort-custom-ops is allowed on the command line only" in qdqtool(*recipe, cwd=folder).err
    for text in (line, f"[[check]]\nmodel = 'm.onnx'\n{line}"):
        (folder / "qdqtool.toml").write_text(text, encoding="utf-8")
        assert qdqtool("check", cwd=folder).code == 2
        assert qdqtool("check", "m.onnx", "--samples", "1", cwd=folder).code == 4
    assert loaded == []


def test_the_libraries_of_a_command_and_of_a_call_end_with_it(folder: Path):
    words = ("check", "m.onnx", "--samples", "1")
    assert qdqtool(*words, "--ort-custom-ops", library(), cwd=folder).code == 0
    assert qdqtool(*words, cwd=folder).code == 4
    assert qdq.check_model(folder / "m.onnx", samples=1, ort_custom_ops=[library()]).reference.custom_ops
    with pytest.raises(CapabilityError, match="NegPos"):
        qdq.check_model(folder / "m.onnx", samples=1)
    assert active() == CustomOperators()


def test_calls_in_two_threads_have_their_own_operators(folder: Path):
    def check(libraries: list[Path]) -> bool:
        try:
            return bool(qdq.check_model(folder / "m.onnx", samples=1, ort_custom_ops=libraries).passed)
        except CapabilityError:
            return False

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(check, ([library()], [], [library()], []))] == [True, False, True, False]


def test_what_is_no_list_of_paths_is_refused(folder: Path):
    for given in (str(library()), 3, [3]):
        with pytest.raises(ArgumentError, match="ort_custom_ops"):
            qdq.check_model(folder / "m.onnx", ort_custom_ops=given)
    with pytest.raises(ArgumentError, match="has no option 'ort_custom_ops'"):
        qdq.build_engine(folder / "m.onnx", folder / "e", ort_custom_ops=[library()])


def test_a_written_model_has_no_stand_in(folder: Path):
    """TensorRT's parser would take the function instead of the plugin of that name."""
    onnx.save(between("Twice", "acme", ("b",)), folder / "m.onnx")
    words = ("quantize", "m.onnx", "--calib-data", "data.npz", "-o", "q.onnx", "--no-equalize")
    assert qdqtool(*words, "--stand-in", stand_in(folder / "f.onnx"), cwd=folder).code == 0
    written = onnx.load(folder / "q.onnx")
    assert not written.functions
    assert [node.domain for node in written.graph.node if node.op_type == "Twice"] == ["acme"]
    assert sum(node.op_type == "QuantizeLinear" for node in written.graph.node) == 3
    told = "acme::Twice: a stand-in ran here, so its numbers say nothing of the operator itself"
    check = ("check", "q.onnx", "--baseline", "m.onnx", "--data", "data.npz", "--stand-in", "f.onnx")
    assert told in qdqtool(*check, cwd=folder).out


@pytest.mark.slow(reason="the parser of TensorRT for RTX")
def test_the_parser_takes_a_function_in_the_file_where_it_would_look_for_a_plugin(folder: Path):
    trt = pytest.importorskip("tensorrt_rtx")
    proto = between("Twice", "acme", ("b",))
    answers = []
    for functions in ((), onnx.load(stand_in(folder / "f.onnx")).functions):
        proto.functions.extend(functions)
        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        network = trt.Builder(logger).create_network(0)
        parser = trt.OnnxParser(network, logger)
        answers.append(parser.parse(proto.SerializeToString()))
    assert answers == [False, True]


@pytest.mark.slow(reason="starts a worker and other processes")
def test_workers_and_child_processes_get_the_library(folder: Path):
    words = ("calibrate", "m.onnx", "--calib-data", "data.npz", "--ort-custom-ops", library())
    assert qdqtool_process(*words, "-o", "here.json", cwd=folder).code == 0
    pytest.importorskip("distributed")
    assert qdqtool_process(*words, "-o", "there.json", "--dask", "local:1", cwd=folder).code == 0
    assert (folder / "here.json").read_bytes() == (folder / "there.json").read_bytes()
    proto = between()
    proto.graph.node[0].op_type = "Log"
    del proto.graph.node[0].input[1:]
    onnx.save(proto, folder / "nan.onnx")
    reduced = ("reduce", "nan.onnx", "--fails", "check", "-o", "small.onnx", "--", "--ort-custom-ops", library())
    assert qdqtool_process(*reduced, cwd=folder).code == 0


def test_partial_quantizes_what_is_in_front_and_claims_nothing_about_the_rest(folder: Path):
    words = ("quantize", "m.onnx", "--calib-data", "data.npz", "-o", "q.onnx", "--no-equalize", "--partial")
    done = qdqtool(*words, "--output-format", "json", cwd=folder)
    report = json.loads(done.out)
    assert (done.code, report["verdict"], report["not_computed"]) == (0, "warning", ["y"])
    assert any("accuracy of output 'y' is unknown" in each["detail"] for each in report["reasons"])
    assert [each["name"] for each in report["accuracy"]["outputs"]] == ["a"]
    assert {pair["tensor"] for pair in report["quantized"]} == {"x", "w1"}
    assert [each["node"] for each in report["skipped"]] == ["custom", "behind", "relu", "last"]
    assert qdqtool(*words, "--strict", cwd=folder).code == 1
    # The whole model computes what the float model does.
    check = ("check", "q.onnx", "--baseline", "m.onnx", "--data", "data.npz", "--ort-custom-ops", library())
    assert qdqtool(*check, "--min-sqnr", "30", cwd=folder).code == 0


def test_partial_changes_nothing_for_a_model_that_onnxruntime_knows(folder: Path):
    onnx.save(between("Relu", "", ("b",)), folder / "m.onnx")
    words = ("quantize", "m.onnx", "--calib-data", "data.npz", "--no-equalize", "--output-format", "json", "-o")
    plain, partial = (
        json.loads(qdqtool(*words, *more, cwd=folder).out) for more in (["a.onnx"], ["b.onnx", "--partial"])
    )
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()
    assert partial["reasons"] == plain["reasons"]
    assert partial["not_computed"] == []
