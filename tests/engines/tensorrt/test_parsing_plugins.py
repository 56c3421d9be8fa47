"""What TensorRT's parser does with operators that it does not have, and how libraries of plugins are loaded."""

import json
import os
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool
from support.plugin_models import library, swirl_model

pytestmark = pytest.mark.builder
RTX = ("--backend", "tensorrt-rtx", "--sm", "8.6")
EMPTY = "int nothing(void) { return 0; }\n"
NO_CREATORS = "void* const* getCreators(int* count) { *count = 0; return 0; }\nvoid setLoggerFinder(void* f) {}\n"


def answers(model: onnx.ModelProto, *, override: bool = False) -> tuple[bool, list[str], str]:
    """Whether the parser takes a model, the names of the layers, and what the log has of plugins and functions."""
    trt = pytest.importorskip("tensorrt_rtx")
    lines: list[str] = []

    class Logger(trt.ILogger):
        def log(self, severity, message: str) -> None:
            lines.append(message)

    log = Logger()
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    if override:
        parser.set_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
    taken = parser.parse(model.SerializeToString())
    layers = [network.get_layer(index).name for index in range(network.num_layers)]
    return taken, layers, "\n".join(line for line in lines if "lugin" in line or "local function" in line)


def test_an_unknown_operator_is_looked_up_as_a_plugin_of_its_name_in_two_namespaces():
    taken, _, log = answers(swirl_model(stand_in=False))
    assert not taken
    assert "using pluginName: Swirl, pluginVersion: 1, pluginNamespace: \n" in log
    assert "using pluginName: Swirl, pluginVersion: 1, pluginNamespace: acme\n" in log


def test_attributes_of_the_node_name_version_and_namespace():
    _, _, log = answers(swirl_model(stand_in=False, plugin_version="3", plugin_namespace="other"))
    assert "using pluginName: Swirl, pluginVersion: 3, pluginNamespace: other\n" in log
    assert "using pluginName: Swirl, pluginVersion: 3, pluginNamespace: acme\n" in log


@pytest.mark.parametrize("override", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"plugin_version": "1", "plugin_namespace": "acme"}])
def test_a_local_function_is_built_where_no_plugin_has_its_name(attributes, override):
    taken, layers, log = answers(swirl_model(**attributes), override=override)
    assert (taken, "Importing as a local function" in log) == (True, True)
    assert {"node_of_t", "node_of_b"} <= {*layers}
    # The parser asks for a plugin first if the flag or this attribute says so.
    assert ("can be treated as plugin: Swirl" in log) == (override or bool(attributes))


def test_rtx_brings_no_plugins_of_its_own():
    trt = pytest.importorskip("tensorrt_rtx")
    log = trt.Logger(trt.Logger.ERROR)
    assert trt.init_libnvinfer_plugins(log, "")
    assert trt.Builder(log).get_plugin_registry().all_creators == []


@pytest.fixture
def swirl(tmp_path: Path) -> Path:
    pytest.importorskip("tensorrt_rtx")
    onnx.save(swirl_model(), tmp_path / "m.onnx")
    return tmp_path


def build(folder: Path, *words: str | Path):
    return qdqtool("build", folder / "m.onnx", "-o", folder / "e.engine", *RTX, *words)


def test_a_library_is_loaded_in_the_process_that_builds_alone(swirl: Path):
    source = f"""#include <stdio.h>
    #include <unistd.h>
    __attribute__((constructor)) static void say(void) {{
        FILE* file = fopen("{swirl / "loaded"}", "a"); fprintf(file, "%d\\n", getpid()); fclose(file);
    }}
    """
    done = build(swirl, "--plugins", library(swirl, source), "--output-format", "json")
    (process,) = (swirl / "loaded").read_text().split()
    assert int(process) != os.getpid()
    report = json.loads(done.out)
    assert report["warnings"] == ["no node of the model became a plugin: the libraries of --plugins are not used"]
    assert [*report["options"]["plugins"]] == ["libswirl.so"]


def test_with_a_library_the_stand_in_of_a_declared_plugin_is_not_built(swirl: Path):
    made = library(swirl, EMPTY)
    done = build(swirl, "--plugins", made, "--plugin-ops", "acme::Swirl")
    assert (done.code, "TensorRT has no operator and no plugin with this name" in done.err) == (1, True)
    assert "no loaded library has a plugin with the name, version and namespace" in done.err
    log = swirl / "log.txt"
    build(swirl, "--plugins", made, "--plugin-ops", "acme::Swirl", "--verbose-log", log)
    assert "using pluginName: Swirl, pluginVersion: 1, pluginNamespace: acme" in log.read_text()
    assert not (swirl / "e.engine").exists()


def test_without_one_the_engine_says_that_it_has_the_stand_in(swirl: Path):
    done = build(swirl, "--plugin-ops", "acme::Swirl", "--output-format", "json")
    (warning,) = json.loads(done.out)["warnings"]
    assert warning.startswith("TensorRT took no plugin for 1 of 1 plugin node: it built an operator")
    converted = qdqtool(
        "convert", swirl / "m.onnx", "--random-calibration", "--plugin-ops", "acme::Swirl", *RTX, "-o", swirl / "out"
    )
    assert f"warning  {warning}" in " ".join(converted.out.split()).replace("warning ", "warning  ")
    manifest = json.loads((swirl / "e.engine.manifest.json").read_text())
    assert manifest["plugin_operators"] == ["acme::Swirl"]


def test_the_registry_says_why_it_does_not_take_a_library(swirl: Path):
    done = build(swirl, "--plugins", library(swirl, NO_CREATORS))
    assert done.code == 4
    assert "cannot load the plugin library" in done.err
    assert "No creator returned" in done.err


def test_a_library_that_ends_the_process_is_a_crash_in_one_line(swirl: Path):
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void end(void) { abort(); }\n"
    done = build(swirl, "--plugins", library(swirl, source), "--skip-validate")
    assert (done.code, done.err.count("error:")) == (1, 1)
    assert "crashed with SIGABRT while starting; no engine was written" in done.err


def test_libraries_are_compared_by_lock_and_verification(swirl: Path):
    made = library(swirl, EMPTY)
    assert build(swirl, "--plugins", made).code == 0
    lock = ("--locked", swirl / "e.engine.manifest.json")
    assert build(swirl, "--plugins", made, *lock).code == 0
    verified = qdqtool("verify-engine", swirl / "e.engine")
    assert "1 library, sha256 equal" in verified.out
    with made.open("ab") as file:
        file.write(b"changed")
    changed = build(swirl, "--plugins", made, *lock)
    assert (changed.code, "options plugins libswirl.so is " in changed.err) == (1, True)
    verified = qdqtool("verify-engine", swirl / "e.engine")
    assert (verified.code, "libswirl.so differs from the library" in verified.out) == (1, True)
    made.unlink()
    verified = qdqtool("verify-engine", swirl / "e.engine")
    assert "libswirl.so is not in the folder of the engine" in verified.out
