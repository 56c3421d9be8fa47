"""``convert`` in Python: data and options as Python code has them, and the files that the command would write."""

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.networks import Network
from support.pictures import picture, save_picture
from support.printed_json import faults

import qdqtool
from qdqtool import __main__ as entry
from qdqtool.errors import ArgumentError, UsageError

ROWS = np.random.default_rng(3).normal(size=(20, 3, 8, 8)).astype(np.float32)


def network(batch: int | str = 1) -> onnx.ModelProto:
    net = Network()
    net.relu(net.conv("x", "y", (16, 3, 3, 3)))
    return net.model({"x": (batch, 3, 8, 8)})


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_generator_gives_the_files_that_the_command_writes(tmp_path: Path):
    onnx.save(network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=ROWS)
    report = qdqtool.convert(
        tmp_path / "net.onnx", (row[None] for row in ROWS), tmp_path / "a", no_build=True, check_min_sqnr=10
    )
    words = ["--calib-data", str(tmp_path / "data.npz"), "--no-build", "--check-min-sqnr", "10", "-o"]
    assert entry._run(["convert", str(tmp_path / "net.onnx"), *words, str(tmp_path / "b")]) == 0

    assert report.passed
    first, second = digests(tmp_path / "a"), digests(tmp_path / "b")
    assert first.pop("report.html") != second.pop("report.html")
    assert first.pop("report.json") != second.pop("report.json")  # they name other folders and data
    assert first == second
    assert sorted(first) == ["net.int8.onnx", "net.int8.plan.json", "net.int8.ranges.json"]


def test_a_model_in_memory_and_a_limit_that_is_missed(tmp_path: Path):
    report = qdqtool.convert(network(), ROWS, tmp_path / "out", no_build=True, check_min_sqnr=99)
    assert (report.passed, report.failed, report.exit_code) == (False, "check", 1)
    assert report.step("check").missed == ("min-sqnr",)


def test_validation_data_of_any_kind_measures(tmp_path: Path):
    report = qdqtool.convert(network(), ROWS, tmp_path / "out", no_build=True, validation_data=ROWS[:3] + 1)
    assert report.measured_on is not None
    assert (report.measured_on.part, report.measured_on.samples) == ("validation data", 3)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"no_build": True, "refit": True}, "refit needs an engine"),
        ({"min_sqnrs": 3}, "min_sqnr"),
        ({"backend": "trt"}, "tensorrt"),
        ({"save_plan": "p.json"}, "save_plan"),
    ],
)
def test_wrong_keywords_are_refused_in_one_line(tmp_path: Path, keywords: dict[str, object], message: str):
    with pytest.raises((ArgumentError, UsageError), match=message) as caught:
        qdqtool.convert(network(), ROWS, tmp_path / "out", **keywords)
    assert "\n" not in caught.value.message
    assert not (tmp_path / "out").exists()


@pytest.mark.builder
@pytest.mark.parametrize("batch", [1, "N"], ids=["fixed", "dynamic"])
def test_a_folder_of_images_becomes_an_engine(tmp_path: Path, batch: int | str):
    pytest.importorskip("tensorrt_rtx")
    onnx.save(network(batch), tmp_path / "net.onnx")
    for number in range(12):
        save_picture(tmp_path / "photos" / f"{number}.png", picture(10, 12, number))
    words = ["--image-preset", "imagenet", "--preview", str(tmp_path / "p.png"), "--compute-capabilities", "8.9"]
    data, folder = tmp_path / "photos", tmp_path / "out"
    asked = ["convert", str(tmp_path / "net.onnx"), "--calib-data", str(data), *words, "-o", str(folder)]
    assert entry._run(asked) == 0

    steps = {each["step"]: each for each in json.loads((folder / "report.json").read_text())["steps"]}
    assert {each["state"] for each in steps.values()} == {"passed"}
    profiles = {each["name"]: each["opt"] for each in steps["build"]["report"]["profiles"]}
    assert profiles == ({} if batch == 1 else {"x": [1, 3, 8, 8]})
    assert steps["check"]["report"]["data"]["preprocessing"]["channels"] == "rgb"
    assert (tmp_path / "p.png").exists()
    assert [(name, faults(each["report"], name)) for name, each in steps.items()] == [(name, []) for name in steps]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"not an image", "3.jpg"), (None, "3.jpg"), (b"", "3.jpg")],
    ids=["text", "truncated", "empty"],
)
def test_a_wrong_image_is_told_in_one_line_and_leaves_no_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes | None, message: str
):
    onnx.save(network(), tmp_path / "net.onnx")
    for number in range(6):
        save_picture(tmp_path / "photos" / f"{number}.jpg", picture(100, 120, number))
    wrong = tmp_path / "photos" / "3.jpg"
    wrong.write_bytes(wrong.read_bytes()[:900] if content is None else content)
    asked = ["convert", str(tmp_path / "net.onnx"), "--calib-data", str(wrong.parent), "--image-preset", "unit"]
    assert entry._run([*asked, "--no-build", "-o", str(tmp_path / "out")]) == 2

    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert message in errors[0]
    assert not (tmp_path / "out").exists()
