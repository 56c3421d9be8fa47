"""What users may import: the package, its errors and the dialects name it in ``__all__``, and name nothing else."""

import ast
import builtins
import dataclasses
import importlib
import inspect
import os
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from support.paths import ROOT

import qdqtool
from qdqtool import errors, interop

DIALECTS = tuple(
    importlib.import_module(f"qdqtool.interop.{path.stem}")
    for path in sorted((ROOT / "qdqtool/interop").glob("[a-z]*.py"))
)
MODULES = (qdqtool, errors, interop, *DIALECTS)
PUBLIC = [
    pytest.param(module, name, id=f"{module.__name__}.{name}") for module in MODULES for name in sorted(module.__all__)
]
FUNCTIONS = [case for case in PUBLIC if isinstance(getattr(*case.values), FunctionType)]
OUTSIDE = {
    "Any", "ArrayLike", "DTypeLike", "Iterable", "Literal", "Mapping", "NDArray", "Path", "Sequence", "Unpack",
    *(name for name in vars(qdqtool.keywords) if name.endswith("Keywords")),
}  # fmt: skip
"""Names of NumPy, of Python's library and of classes of keywords that signatures may show."""
LONGEST_SIGNATURE = 341
"""Characters of the longest signature that `help` may print: some four lines of a terminal."""
MOST_NAMES = 73
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(?:qdq|qdqtool)\.(\w+)\(")


def test_every_dialect_is_named_or_is_the_array_api_of_the_package():
    named = {module.__name__.rpartition(".")[2] for module in DIALECTS}
    assert named - {"arrays"} == {name for name in interop.__all__ if isinstance(getattr(interop, name), ModuleType)}
    assert set(importlib.import_module("qdqtool.interop.arrays").__all__) <= set(qdqtool.__all__)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_dir_shows_what_may_be_imported_and_nothing_else(module: ModuleType):
    assert len(module.__all__) == len(set(module.__all__)) > 0
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("module", [qdqtool, interop], ids=lambda module: module.__name__)
def test_a_name_that_does_not_exist_is_an_attribute_error(module: ModuleType):
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'quantise'"):
        module.quantise  # noqa: B018


def test_type_checkers_and_python_find_each_name_in_the_same_module():
    tree = ast.parse((ROOT / "qdqtool/__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(name.asname == name.name for node in imports for name in node.names)
    assert qdqtool._homes() == {name.name: node.module for node in imports for name in node.names}
    assert set(qdqtool._homes()) == set(qdqtool.__all__)


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_everything_public_can_be_had_and_is_documented(module: ModuleType, name: str):
    found = getattr(module, name)
    if isinstance(found, type | FunctionType | ModuleType):
        text = found.__dict__.get("__doc__") or "" if isinstance(found, type) else found.__doc__ or ""
        assert text
        assert not text.startswith(f"{name}("), "the text that dataclass makes up"
    else:
        home = qdqtool._homes().get(name, module.__name__) if module is qdqtool else module.__name__
        assert name == "__version__" or name in _documented_constants(home)


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_signatures_are_short_and_name_only_what_is_public(module: ModuleType, name: str):
    function = getattr(module, name)
    signature = inspect.signature(function)
    assert len(str(signature)) <= LONGEST_SIGNATURE
    known = {name for module in MODULES for name in module.__all__} | OUTSIDE | set(dir(builtins))
    parts = [*(parameter.annotation for parameter in signature.parameters.values()), signature.return_annotation]
    shown = {node.id for part in parts for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Name)}
    assert shown
    assert shown <= known


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_what_a_function_takes_and_returns_is_public(module: ModuleType, name: str):
    public = [getattr(*case.values) for case in PUBLIC] + [*vars(qdqtool.keywords).values()]
    returned = {found for case in FUNCTIONS for found in _classes(_hints(*case.values)["return"])}
    hints = _hints(module, name)
    result = hints.pop("return")
    assert [found for found in _classes(result) if found not in public] == []
    assert [found for found in _arguments(hints.values(), returned) if found not in public] == []


def test_a_reader_can_hold_the_public_names():
    assert len(qdqtool.__all__) <= MOST_NAMES


def test_private_modules_do_not_show_through():
    """``GraphPiece`` is the one public name that lives in a module of the dialects' own."""
    homes = {
        f"{module.__name__}.{name}": getattr(getattr(module, name), "__module__", "")
        for module in MODULES
        for name in module.__all__
    }
    private = {name: home for name, home in homes.items() if re.search(r"\._", home)}
    assert private == {"qdqtool.interop.GraphPiece": "qdqtool.interop._graph"}


@pytest.mark.parametrize("function", [qdqtool.quantize, interop.tensorrt.quantize], ids=["qdqtool", "tensorrt"])
def test_help_shows_the_names_of_numpy(function: Any):
    shown = str(inspect.signature(function))
    assert "scale: 'ArrayLike'" in shown
    assert "dtype: 'DTypeLike'" in shown
    assert shown.endswith("-> 'NDArray[Any]'")


def test_help_shows_keywords_with_their_types():
    shown = pydoc.render_doc(qdqtool.quantize_model, renderer=pydoc.plaintext)
    for line in (
        "allow_constant_data: bool",
        "nodes_to_exclude: Sequence[str]",
        "high_precision_dtype: Literal['auto', 'fp32', 'fp16', 'bf16']",
        "input_shapes: Mapping[str, Sequence[int]]",
    ):
        assert f"        {line}\n" in shown
    for function in (getattr(*case.values) for case in FUNCTIONS):
        kind = function.__annotations__.get("keywords", "")[len("Unpack[") : -1]
        names = typing.get_type_hints(getattr(qdqtool.keywords, kind)) if kind else {}
        assert [name for name in names if f"    {name}: " not in function.__doc__] == []


def test_pages_import_only_what_is_public():
    blocks = [(page, match[1]) for page in PAGES for match in PYTHON.finditer(page.read_text())]
    used = {(page.name, name) for page, block in blocks for name in _used(ast.parse(block))}
    used |= {(page.name, match[1]) for page in PAGES for match in INLINE.finditer(page.read_text())}
    assert {("README.md", "quantize_model"), ("quantize.md", "quantize_model")} <= used
    assert {(page, name) for page, name in used if name not in qdqtool.__all__} == set()


def _used(tree: ast.Module) -> Iterator[str]:
    """Names that a block of a page takes from the package, its deeper modules with the dotted name."""
    package = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "qdqtool":
            assert node.module is not None
            yield from (name.name if node.module == "qdqtool" else f"{node.module}.{name.name}" for name in node.names)
        if isinstance(node, ast.Import):
            ours = [name for name in node.names if name.name.split(".")[0] == "qdqtool"]
            package |= {name.asname or name.name for name in ours}
            yield from (name.name for name in ours if "." in name.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in package:
            yield node.attr


def _documented_constants(module: str) -> set[str]:
    """Names of a module whose assignment is followed by a text."""
    path = Path(importlib.import_module(module).__file__ or "")
    body = ast.parse(path.read_text()).body
    documented = set()
    for before, after in pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
            documented |= {target.id for target in targets if isinstance(target, ast.Name)}
    return documented


def _classes(hint: Any) -> Iterator[type]:
    """Our classes in a type hint, enumerations and their values included."""
    if isinstance(hint, type) and hint.__module__.startswith("qdqtool"):
        yield hint
    for argument in typing.get_args(hint):
        for each in argument if isinstance(argument, list) else [argument]:
            yield from _classes(each)


def _arguments(hints: Iterable[Any], returned: set[type]) -> Iterator[type]:
    """Our classes that a caller has to make: those of the hints and of their fields, but not what functions return."""
    for hint in hints:
        for found in _classes(hint):
            yield found
            if dataclasses.is_dataclass(found) and found not in returned:
                yield from _arguments(typing.get_type_hints(found).values(), returned)


def _hints(module: ModuleType, name: str) -> dict[str, Any]:
    return typing.get_type_hints(getattr(module, name))


def test_onnx_runtime_neither_sends_usage_data_nor_follows_a_link_to_write_its_session(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".ses").symlink_to(victim)
    environment = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    code = "import os, qdqtool, onnxruntime; print(os.environ['ORT_DISABLE_TELEMETRY'])"

    def run(**given: str) -> str:
        words = [sys.executable, "-c", code]
        everything = {**environment, "TMPDIR": str(tmp_path), **given}
        return subprocess.run(words, env=everything, check=True, capture_output=True, text=True).stdout.strip()

    assert run() == "1"
    assert victim.read_text() == "mine"
    assert run(ORT_DISABLE_TELEMETRY="0") == "0"  # the user's choice
