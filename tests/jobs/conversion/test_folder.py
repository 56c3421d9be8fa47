"""Which files a conversion takes for its own."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from qdqtool.errors import OutputError, UsageError
from qdqtool.jobs.conversion.folder import FileNames, check_folder, staging

NAMES = FileNames("net.int8")


def earlier(folder: Path, *names: str) -> None:
    """What an earlier conversion left."""
    folder.mkdir()
    for name in names:
        (folder / name).write_bytes(name.encode())
    files = [{"name": name, "sha256": sha256(name.encode()).hexdigest()} for name in names]
    (folder / "report.json").write_text(json.dumps({"folder": "out", "steps": [], "files": files}))


def test_names_are_those_of_model_and_mode():
    assert FileNames.of(Path("a/b.c.onnx"), "fp8").name("engine") == "b.c.fp8.engine"
    assert FileNames.of(None, "int4").name("plan") == "model.int4.plan.json"


def test_files_that_a_report_lists_are_its_own(tmp_path: Path):
    earlier(tmp_path / "out", "net.int8.onnx", "old.engine")
    assert check_folder(tmp_path / "out", NAMES, []) == ("report.json", "net.int8.onnx", "old.engine")


@pytest.mark.parametrize(
    "name", ["net.int8.onnx", "net.int8.engine", "report.json", "report.html", "net.int8.plan.json"]
)
def test_other_files_in_the_way_are_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        check_folder(tmp_path, NAMES, [])


def test_a_listed_file_that_was_changed_is_not_its_own(tmp_path: Path):
    earlier(tmp_path / "out", "net.int8.onnx", "old.engine")
    (tmp_path / "out" / "old.engine").write_text("changed")
    assert check_folder(tmp_path / "out", NAMES, []) == ("report.json", "net.int8.onnx")
    (tmp_path / "out" / "net.int8.onnx").write_text("changed")
    with pytest.raises(UsageError, match=r"net\.int8\.onnx exists already"):
        check_folder(tmp_path / "out", NAMES, [])


def test_a_page_of_an_earlier_conversion_is_its_own_and_another_file_is_not(tmp_path: Path):
    earlier(tmp_path / "out")
    (tmp_path / "out" / "report.html").write_text('<!doctype html><meta name="generator" content="qdqtool 0.0.1">')
    assert check_folder(tmp_path / "out", NAMES, []) == ("report.json", "report.html")
    (tmp_path / "out" / "report.html").write_text("mine")
    with pytest.raises(UsageError, match=r"report\.html exists already"):
        check_folder(tmp_path / "out", NAMES, [])


def test_a_report_lists_nothing_outside_its_folder(tmp_path: Path):
    (tmp_path / "victim").write_bytes(b"../victim")
    earlier(tmp_path / "out")
    digest = sha256(b"../victim").hexdigest()
    entries = [{"name": name, "sha256": digest} for name in ("../victim", str(tmp_path / "victim"), "..", "")]
    (tmp_path / "out" / "report.json").write_text(json.dumps({"folder": "", "steps": [], "files": entries}))
    assert check_folder(tmp_path / "out", NAMES, []) == ("report.json",)


@pytest.mark.parametrize("name", ["net.int8.onnx", "report.json", "old.engine"])
def test_no_input_is_written_or_removed(tmp_path: Path, name: str):
    earlier(tmp_path / "out", "net.int8.onnx", "old.engine")
    with pytest.raises(UsageError, match="never overwritten"):
        check_folder(tmp_path / "out", NAMES, [tmp_path / "out" / ".." / "out" / name])


def test_a_folder_has_to_be_one(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        check_folder(tmp_path / "file", NAMES, [])
    with pytest.raises(OutputError, match="does not exist"):
        check_folder(tmp_path / "a" / "b", NAMES, [])


def test_a_failure_leaves_no_folder(tmp_path: Path):
    def fail() -> None:
        with staging(tmp_path / "out", NAMES, ()) as aside:
            aside.made("model").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_gets_too_long_is_refused_first(tmp_path: Path):
    # "….int8.engine.manifest.json.sig" has 30 bytes more than the name of the model.
    assert check_folder(tmp_path / "out", FileNames.of(Path(f"{'x' * 225}.onnx"), "int8"), []) == ()
    with pytest.raises(OutputError, match=r"output x{40}… has a name of 256 bytes; at most 255 are possible"):
        check_folder(tmp_path / "out", FileNames.of(Path(f"{'x' * 226}.onnx"), "int8"), [])
