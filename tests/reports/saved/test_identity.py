"""Reports belong together by digests, or by paths where a digest is not known."""

from dataclasses import replace

import pytest
from support.saved_reports import LAYERS, whole

from qdqtool.errors import UsageError
from qdqtool.models.graph.report import DataFile, ModelFile
from qdqtool.reports.saved.identity import Claim, agreed, float_claims, quantized_claims, same_model
from qdqtool.reports.saved.reading import read_document

FILE = ModelFile(bytes=3, sha256="a" * 64, external_data=())
OTHER = ModelFile(bytes=3, sha256="c" * 64, external_data=())


def claim(path: str, file: ModelFile | None = None, command: str = "check") -> Claim:
    return Claim(f"{command}.json", path, file, command)


def with_data(sha256: str | None, size: int = 5) -> ModelFile:
    data = DataFile(name="w", bytes=size, sha256=sha256)
    return ModelFile(bytes=3, sha256="a" * 64, external_data=(data,))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (claim("/a/m.onnx", FILE), claim("/b/n.onnx", FILE), True),
        (claim("m.onnx", FILE), claim("m.onnx", OTHER), False),
        (claim("/a/m.onnx", FILE), claim("a/m.onnx"), True),
        (claim("/a/m.onnx", FILE), claim("/b/m.onnx"), False),
        (claim("m.onnx", with_data("1")), claim("m.onnx", with_data("1")), True),
        (claim("m.onnx", with_data("1")), claim("m.onnx", with_data("2")), False),
        (claim("m.onnx", with_data("1")), claim("m.onnx", with_data(None)), True),
        (claim("m.onnx", with_data("1")), claim("m.onnx", with_data(None, 6)), False),
    ],
)
def test_digests_come_before_paths(first: Claim, second: Claim, same: bool):
    assert same_model(first, second) is same
    assert same_model(second, first) is same


def test_the_longest_path_and_any_digest_are_kept():
    found = agreed([claim("m.onnx", FILE), claim("", None), claim("/a/b/m.onnx", FILE, "build")], "quantized model")
    assert found is not None
    assert (found.path, found.file, found.command) == ("/a/b/m.onnx", FILE, "build")
    assert agreed([claim("")], "quantized model") is None


def test_a_file_that_changed_between_two_reports_is_told_with_the_commands():
    with pytest.raises(
        UsageError, match=r"m\.onnx \(SHA-256 aaaaaaaaaaaa…\) in check.json, but m\.onnx .* in build.json"
    ) as caught:
        agreed([claim("m.onnx", FILE), claim("m.onnx", OTHER, "build")], "quantized model")
    assert caught.value.hint == (
        "the file was changed between the two reports: run `qdqtool check` and `qdqtool build` again; "
        "to compare two models, put --against before each report of the second one"
    )


def test_a_digest_contradicts_whatever_a_path_says():
    known = [claim("m.onnx"), claim("m.onnx", FILE), replace(claim("m.onnx"), file=OTHER)]
    with pytest.raises(UsageError, match="do not belong together"):
        agreed(known, "quantized model")


def test_other_paths_without_digests_are_other_models():
    with pytest.raises(UsageError) as caught:
        agreed([claim("m.onnx"), claim("n.onnx")], "float model")
    assert str(caught.value.hint).startswith("give the reports of one model; to compare two models, put --against")


@pytest.mark.parametrize(
    ("changes", "claims"),
    [({}, (1, 0)), ({"nodes": []}, (0, 1)), ({"model": None, "nodes": []}, (0, 0))],
    ids=["quantized", "float", "no model"],
)
def test_layers_of_an_engine_are_about_the_model_that_was_given(changes: dict[str, object], claims: tuple[int, int]):
    (report,) = read_document(whole(LAYERS | changes), "layers.json")
    assert (len([*quantized_claims(report)]), len([*float_claims(report)])) == claims
