"""Paths in reports."""

from dataclasses import dataclass
from pathlib import Path

from qdqtool.jobs.conversion.steps import relocated


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
