"""The code of the child processes against the interface of every supported release, as NVIDIA's bindings tell it.

mypy is the judge: it holds each attribute, call, argument and enum member against a type stub. Each stub was read from
compiled bindings. The last tests show that it is true, wherever bindings can be loaded.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from support.command import qdqtool_process
from support.engine_models import conv, save
from support.paths import ROOT
from support.tensorrt_api import NEWEST as IN_GIT
from support.tensorrt_api import RELEASES, RTX, TENSORRT, Release
from support.tensorrt_api.describe import stub
from support.tensorrt_api.wheels import bindings, stub_text

NEWEST_10, OLDEST_11, NEWEST = TENSORRT[-3], TENSORRT[-2], TENSORRT[-1]
CONFORMS = """
import tensorrt
import tensorrt_rtx
from qdqtool.engines.tensorrt.parsing import AheadOfTimeProduct, TensorRTModule
product: TensorRTModule = tensorrt
ahead_of_time: AheadOfTimeProduct = tensorrt_rtx
"""
"""That the modules have what the types of :mod:`qdqtool.engines.tensorrt.parsing` say."""

Found = dict[str, dict[int, str]]
"""What mypy finds wrong: by file, then by line."""


@cache
def users() -> Mapping[str, str]:
    """Every module of the package that names a class of TensorRT, by file name."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "qdqtool").rglob("*.py")}
    return {path.name: text for path, text in sources.items() if re.search(r"^ *import tensorrt", text, re.MULTILINE)}


def judge(folder: Path, release: Release, files: Mapping[str, str]) -> Found:
    """Let mypy check files as it does where ``release`` is installed.

    A release of TensorRT for RTX stands for both modules. The folder keeps mypy's cache for the next call.
    """
    place = folder / release.folder
    place.mkdir()
    for name, text in files.items():
        (place / name).write_text(text, encoding="utf-8")
    (place / "tensorrt.pyi").write_text(stub_text(release), encoding="utf-8")
    (place / "tensorrt_rtx.pyi").write_text(stub_text(release if release in RTX else RTX[-1]), encoding="utf-8")
    options = ["--strict", "--config-file=", "--follow-imports=silent", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, f"--cache-dir={folder / 'cache'}", *files],
        cwd=place,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found: Found = {}
    for line in done.stdout.splitlines():
        file, number, kind, message = line.split(":", 3)
        if kind == " error":
            found.setdefault(file, {})[int(number)] = message
    return found


def test_every_module_that_uses_tensorrt_is_checked():
    assert users().keys() >= {"child.py", "parser_child.py", "parsing.py"}
    untyped = re.compile(r"\b_?trt: (?:Any|object|ModuleType)\b|\btrt = importlib\.import_module")
    # What runs engines is held against the installed modules by tests/engines/gpu/test_contract.py.
    package = sorted(path for path in (ROOT / "qdqtool").rglob("*.py") if path.parent.name != "gpu")
    found = [path.name for path in package if untyped.search(path.read_text(encoding="utf-8"))]
    assert found == [], (
        "give the module the type TensorRTModule of qdqtool.engines.tensorrt.parsing, and import its classes for types"
    )


@pytest.mark.slow(reason="mypy for each release")
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.folder)
def test_every_release_has_all_that_the_children_use(release: Release, tmp_path: Path):
    assert judge(tmp_path, release, {**users(), "conforms.py": CONFORMS}) == {}


@pytest.mark.slow(reason="mypy on hundreds of faulty copies")
def test_every_misspelt_attribute_and_keyword_is_found(tmp_path: Path):
    # dict.update takes any keyword.
    names = set(re.findall(r"(?:def|class) (\w+)", NEWEST.stub.read_text(encoding="utf-8"))) - set(dir(dict))
    rounds = {name: fault for file, text in users().items() for name, fault in faulty(file, text, names)}
    assert sum(len(lines) for _, lines in rounds.values()) > 100
    found = judge(tmp_path, NEWEST, {name: text for name, (text, _) in rounds.items()})
    missed = {name: lines - found.get(name, {}).keys() for name, (_, lines) in rounds.items()}
    assert {name: lines for name, lines in missed.items() if lines} == {}


def faulty(file: str, text: str, names: set[str]) -> Iterator[tuple[str, tuple[str, set[int]]]]:
    """Copies of a module with faults: the name of each, its text, and the lines that have a fault.

    Each attribute is misspelt in one of them, and each call of something that TensorRT has gets a keyword that it does
    not take. A function has one fault at most in each copy: the first would hide a second one from mypy.
    """
    sites = [list(_sites(function, names)) for function in _functions(ast.parse(text))]
    for number in range(max(map(len, sites))):
        here = sorted((each[number] for each in sites if number < len(each)), reverse=True)
        lines = text.splitlines(keepends=True)
        for line, column, added in here:
            # ast counts bytes.
            raw = lines[line - 1].encode()
            lines[line - 1] = (raw[:column] + added.encode() + raw[column:]).decode()
        yield f"{Path(file).stem}_{number}.py", ("".join(lines), {line for line, _, _ in here})


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in module.body:
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (each for each in body if isinstance(each, ast.FunctionDef))


def _sites(function: ast.FunctionDef, names: set[str]) -> Iterator[tuple[int, int, str]]:
    """Line, column and text of each fault."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and not _is_own(node):
            yield node.end_lineno, node.end_col_offset, "x"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
            given = bool(node.args or node.keywords)
            yield node.end_lineno, node.end_col_offset - 1, ", misspelt=0" if given else "misspelt=0"


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


WRONG = {
    "too few arguments": ("set_shape(entry", 'entry["opt"], entry["max"])', 'entry["max"])'),
    "too many arguments": ("create_builder_config", "create_builder_config()", "create_builder_config(network)"),
    "another type": ("add_optimization_profile", "(profile) < 0", "(network) < 0"),
    "order": ("build_serialized_network", "(network, config)", "(config, network)"),
    "a property called": ("range(network.num_layers)", "num_layers", "num_layers()"),
    "a method not called": ("create_engine_inspector", "create_engine_inspector()", "create_engine_inspector"),
    "a property that cannot be set": ("config.profiling_verbosity =", "config.profiling_verbosity", "builder.logger"),
    "no member": ("ProfilingVerbosity.DETAILED", "DETAILED", "FULL"),
    "None not expected": ("if loaded is None", "if loaded is None", "if not engine"),
}
"""Faults: a word of the line, what is replaced in it, and by what."""


@pytest.mark.slow(reason="mypy on hundreds of faulty copies")
def test_wrong_calls_are_found(tmp_path: Path):
    text = users()["child.py"]
    copies, lines = {}, {}
    for number, (mark, old, new) in enumerate(WRONG.values()):
        line = next(n for n, each in enumerate(text.splitlines(), 1) if mark in each)
        changed = text.splitlines(keepends=True)
        assert old in changed[line - 1]
        changed[line - 1] = changed[line - 1].replace(old, new)
        copies[f"wrong_{number}.py"], lines[f"wrong_{number}.py"] = "".join(changed), line
    found = judge(tmp_path, NEWEST, copies)
    # A None that is not looked for is found where the object is used, two lines below.
    assert {name: min(found.get(name, {0: ""})) - line for name, line in lines.items()} == {
        name: 2 * (kind == "None not expected") for name, kind in zip(copies, WRONG, strict=True)
    }


USES = """
import tensorrt
def use(builder: tensorrt.Builder, config: tensorrt.IBuilderConfig, parser: tensorrt.OnnxParser) -> None:
    {}
"""
ONLY_10 = (
    "config.set_flag(tensorrt.BuilderFlag.INT8)",
    "config.set_flag(tensorrt.BuilderFlag.FP16)",
    "config.set_flag(tensorrt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)",
    "config.int8_calibrator",
    "builder.platform_has_fast_int8",
    "tensorrt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH",
    "parser.supports_model(b'')",
)
"""What TensorRT 11 has no more."""


def test_what_is_gone_in_version_11_is_found_in_11_alone(tmp_path: Path):
    files = {f"use_{number}.py": USES.format(line) for number, line in enumerate(ONLY_10)}
    assert judge(tmp_path, NEWEST_10, files) == {}
    assert judge(tmp_path, OLDEST_11, files).keys() == files.keys()


def test_the_installed_module_is_as_its_stub_says():
    module = pytest.importorskip("tensorrt_rtx")
    release = next((each for each in RTX if each.version == module.__version__), None)
    assert release is not None, f"add {module.__version__} to RTX in tests/support/tensorrt_api/__init__.py"
    assert stub(module) == release.stub.read_text(encoding="utf-8")


@pytest.mark.parametrize("release", IN_GIT, ids=lambda release: release.folder)
def test_compiled_bindings_are_as_their_stub_says(release: Release, tmp_path: Path):
    assert bindings(release, tmp_path).describe() == release.stub.read_text(encoding="utf-8")


@pytest.mark.slow(reason="a process for each release")
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.folder)
def test_every_release_has_the_function_that_registers_its_plugins(release: Release, tmp_path: Path):
    """The stubs have no functions of the modules, so mypy does not see the call."""
    code = f"import {release.module}_bindings as trt; print(trt.{release.module}.init_libnvinfer_plugins.__doc__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=bindings(release, tmp_path).environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(r"init_libnvinfer_plugins\(logger: \S+, namespace: str\) -> bool", done.stdout)


@pytest.mark.parametrize("release", TENSORRT, ids=lambda release: release.folder)
def test_build_with_real_bindings_ends_where_the_gpu_is_needed(release: Release, tmp_path: Path):
    """The child process itself runs here: it imports the bindings and makes a logger, and no builder comes back."""
    environment = bindings(release, tmp_path / "bindings").environment
    model = save(conv(), tmp_path)
    paths = {name: environment[name] for name in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    done = qdqtool_process("build", model, "-o", tmp_path / "e.engine", "--backend", "tensorrt", **paths)
    assert (done.code, done.err.splitlines()[0]) == (4, "error: TensorRT finds no NVIDIA GPU that it can use")
    assert not (tmp_path / "e.engine").exists()
