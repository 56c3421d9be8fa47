"""Two models get names that differ as long as anything about them does."""

import pytest

from qdqtool.models.graph.report import ModelFile
from qdqtool.reports.page.pair import judged
from qdqtool.reports.saved.identity import Claim
from qdqtool.reports.saved.reading import FailedCommand, SavedReport
from qdqtool.reports.saved.story import Story

FOLDERS = ["m.onnx [pr/r.json]", "m.onnx [main/r.json]"]


def story(path: str | None, sha256: str | None = None, source: str = "") -> Story:
    file = ModelFile(bytes=1, sha256=sha256 * 64, external_data=()) if sha256 is not None else None
    failed = FailedCommand(command="check", model="", message="", hint=None, exit_code=1)
    reports = (SavedReport(source, "check", failed),) if source else ()
    return Story(reports, None, path, Claim("a.json", path or "", file))


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (story("a/m.onnx"), story("a/n.onnx"), ["m.onnx", "n.onnx"]),
        (story("main/out/m.onnx"), story("pr/out/m.onnx"), ["main/out/m.onnx", "pr/out/m.onnx"]),
        (story("x/main/m.onnx"), story("x/pr/m.onnx"), ["main/m.onnx", "pr/m.onnx"]),
        (story("C:\\main\\m.onnx"), story("C:\\pr\\m.onnx"), ["main/m.onnx", "pr/m.onnx"]),
        (story("m.onnx"), story("pr/m.onnx"), ["m.onnx", "pr/m.onnx"]),
        (story("m.onnx", "1", "a.json"), story("m.onnx", "2", "b.json"), ["m.onnx [a.json]", "m.onnx [b.json]"]),
        (story("o/m.onnx", "1", "x/pr/r.json"), story("o/m.onnx", "1", "x/main/r.json"), FOLDERS),
        (story("a/m.onnx", "1"), story("a/m.onnx", "2"), ["m.onnx [111111111111…]", "m.onnx [222222222222…]"]),
        (story("m.onnx", "1", "r"), story("m.onnx", "2", "r"), ["m.onnx [111111111111…]", "m.onnx [222222222222…]"]),
        (story("a/m.onnx"), story("a/m.onnx"), ["m.onnx", "m.onnx"]),
        (story(None), story("a model"), ["a model", "a model"]),
    ],
)
def test_names_are_as_long_as_they_have_to_be(first: Story, second: Story, names: list[str]):
    found = judged((first, second))
    assert [model.name for model in found] == names
    assert [model.label for model in found] == [f"A: {names[0]}", f"B: {names[1]}"]


def test_one_model_has_no_letter():
    (found,) = judged((story("a/m.onnx"),))
    assert found.label == "m.onnx"
