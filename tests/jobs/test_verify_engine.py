"""verify-engine: whatever is changed in engine, manifest, model, machine or signature fails the check of that thing."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.command import qdqtool
from support.engine_models import conv

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.tensorrt.gpus import Gpu
from qdqtool.errors import ModelError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.verify_engine import verify_engine

pytestmark = pytest.mark.builder
NO_GPU: tuple[tuple[Gpu, ...], str] = ((), "no CUDA driver")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that has external data, its engine, manifest and signature, and two keys."""
    pytest.importorskip("tensorrt_rtx")
    if shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH is not installed")
    folder = tmp_path_factory.mktemp("kept")
    onnx.save(conv(), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=16)
    for name in ("key", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    options = BuildOptions(
        compute_capabilities=("8.6", "8.9"), skip_validate=True, timeout=120, sign_key=folder / "key"
    )
    build_engine(folder / "m.onnx", folder / "e.engine", backend="tensorrt-rtx", options=options)
    return folder


@pytest.fixture
def here(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, on a machine without a GPU."""
    monkeypatch.setattr("qdqtool.engines.build.verification.find_gpus", lambda: NO_GPU)
    return Path(shutil.copytree(kept, tmp_path / "here"))


def results(folder: Path, key: str | None = "key.pub", **options: Any) -> dict[str, str]:
    """The status of each check."""
    report = verify_engine(folder / "e.engine", public_key=folder / key if key else None, **options)
    assert report.passed == all(check.status != "failed" for check in report.checks)
    return {check.name: check.status for check in report.checks}


CHECKS = ("manifest", "engine", "header", "model", "external-data", "version", "signature")
ALL_PASS = {**dict.fromkeys(CHECKS, "passed"), "gpu": "not-possible"}


def test_nothing_was_changed(here):
    assert results(here) == ALL_PASS


def test_the_manifest_stands_for_the_engine(here):
    assert verify_engine(here / "e.engine.manifest.json") == verify_engine(here / "e.engine")


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """An edit of the manifest."""

    def run(folder: Path) -> None:
        file = folder / "e.engine.manifest.json"
        facts = json.loads(file.read_text())
        change(facts)
        file.write_text(json.dumps(facts))

    return run


def flip(name: str, place: int) -> Callable[[Path], None]:
    """Change one byte of a file."""

    def run(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[place] ^= 1
        (folder / name).write_bytes(data)

    return run


def another_engine(folder: Path) -> None:
    options = BuildOptions(compute_capabilities=("8.6",), skip_validate=True, sign_key=folder / "key")
    build_engine(folder / "m.onnx", folder / "o.engine", backend="tensorrt-rtx", options=options)
    (folder / "o.engine.manifest.json").rename(folder / "e.engine.manifest.json")
    (folder / "o.engine.manifest.json.sig").rename(folder / "e.engine.manifest.json.sig")


def cut(folder: Path) -> None:
    data = (folder / "e.engine").read_bytes()
    (folder / "e.engine").write_bytes(data[:-1])


BROKEN = {
    "the last byte of the engine": (flip("e.engine", -1), {"engine"}),
    "a byte in the middle of the engine": (flip("e.engine", 100_000), {"engine"}),
    "the targets in the header": (flip("e.engine", 32), {"engine", "header"}),
    "the mark of the header": (flip("e.engine", 0), {"engine", "header"}),
    "an engine that was cut": (cut, {"engine", "header"}),
    "the manifest of another engine": (another_engine, {"engine", "header"}),
    "the external data": (flip("m.data", 5), {"external-data"}),
    "white space in the manifest": (edit(lambda facts: None), {"signature"}),
    "the version in the manifest": (
        edit(lambda facts: facts["versions"].update({"tensorrt-rtx": "1.6.1.120"})),
        {"signature", "header", "version"},
    ),
    "the targets in the manifest": (edit(lambda facts: facts.update(targets=["8.6"])), {"signature", "header"}),
    "more targets in the manifest": (
        edit(lambda facts: facts.update(targets=["8.6", "8.9", "12.0"])),
        {"signature", "header"},
    ),
    "what was achieved": (edit(lambda facts: facts.update(achieved={"int8": 99})), {"signature"}),
    "the hash of the engine": (edit(lambda facts: facts["engine"].update(sha256="0")), {"signature", "engine"}),
    "the backend": (edit(lambda facts: facts.update(backend="tensorflow")), {"signature", "version"}),
    "no external data in the manifest": (
        edit(lambda facts: facts["model"].update(external_data=[])),
        {"signature", "external-data"},
    ),
    "the signature": (lambda folder: (folder / "e.engine.manifest.json.sig").write_text("junk"), {"signature"}),
    "no signature": (lambda folder: (folder / "e.engine.manifest.json.sig").unlink(), {"signature"}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_changed_fails(here, case):
    change, expected = BROKEN[case]
    change(here)
    found = results(here)
    assert {name for name, status in found.items() if status == "failed"} == expected


def test_another_key_fails(here):
    assert results(here, "other.pub") == {**ALL_PASS, "signature": "failed"}


def test_a_changed_model_leaves_its_external_data_unknown(here):
    flip("m.onnx", -1)(here)
    assert results(here) == {**ALL_PASS, "model": "failed", "external-data": "not-possible"}


def test_without_a_key_nothing_is_claimed_of_the_signature(here):
    report = verify_engine(here / "e.engine")
    (check,) = (check for check in report.checks if check.name == "signature")
    assert (check.status, check.detail) == (
        "not-possible",
        "give the key with --public-key; changes of the manifest are not detected",
    )
    (here / "e.engine.manifest.json.sig").unlink()
    assert results(here, None)["signature"] == "not-possible"


def test_a_model_that_is_elsewhere(here):
    (here / "elsewhere").mkdir()
    for name in ("m.onnx", "m.data"):
        (here / name).rename(here / "elsewhere" / name)
    assert results(here) == {**ALL_PASS, "model": "not-possible", "external-data": "not-possible"}
    assert results(here, model=here / "elsewhere" / "m.onnx") == ALL_PASS
    with pytest.raises(ModelError, match="cannot be read"):
        results(here, model=here / "m.onnx")
    (here / "elsewhere" / "m.data").unlink()
    assert results(here, model=here / "elsewhere" / "m.onnx") == {**ALL_PASS, "external-data": "not-possible"}


def test_a_manifest_does_not_lead_to_files_elsewhere(here):
    edit(lambda facts: facts["model"].update(name="../here/m.onnx"))(here)
    assert results(here, None)["model"] == "passed"
    (here.parent / "secret.onnx").write_bytes(b"x")
    edit(lambda facts: facts["model"].update(name="../secret.onnx"))(here)
    assert results(here, None)["model"] == "not-possible"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [(("8.9",), "passed"), (("8.0",), "failed"), (("9.0", "8.6"), "passed"), (("9.0",), "failed")],
)
def test_the_gpus_of_the_machine(here, monkeypatch, capabilities, expected):
    gpus = tuple(Gpu(name="GPU", compute_capability=capability) for capability in capabilities)
    monkeypatch.setattr("qdqtool.engines.build.verification.find_gpus", lambda: (gpus, ""))
    assert results(here)["gpu"] == expected


@pytest.mark.parametrize(
    ("installed", "options", "expected"),
    [("1.7.2.0", {}, "failed"), ("1.7.2.0", {"version_compatible": True}, "not-possible"), (None, {}, "not-possible")],
)
def test_the_installed_version(here, monkeypatch, installed, options, expected):
    monkeypatch.setattr("qdqtool.engines.build.verification.installed_version", lambda _: installed)
    edit(lambda facts: facts["options"].update(options))(here)
    assert results(here, None)["version"] == expected


def test_the_header_of_a_release_that_is_not_known_is_no_failure(here):
    flip("e.engine", 0)(here)
    edit(lambda facts: facts["versions"].update({"tensorrt-rtx": "2.0.0.1"}))(here)
    assert results(here, None)["header"] == "not-possible"
    edit(lambda facts: facts.update(backend="tensorrt"))(here)
    assert results(here, None)["header"] == "not-possible"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "e.engine").unlink(), "e.engine: no such file"),
        (lambda folder: (folder / "e.engine.manifest.json").unlink(), "has no manifest"),
        (lambda folder: (folder / "e.engine.manifest.json").write_text("{}"), "is not a manifest"),
        (lambda folder: (folder / "e.engine.manifest.json").write_bytes(b"\xff"), "is not a manifest"),
        (edit(lambda facts: facts.update(schema_version=2)), "schema version 2; expected 1"),
        (edit(lambda facts: facts.update(targets="8.9")), "is not a manifest"),
    ],
)
def test_what_cannot_be_verified_at_all(here, change, message):
    change(here)
    with pytest.raises(ModelError, match=message):
        results(here)


def test_on_the_command_line(here):
    done = qdqtool("verify-engine", here / "e.engine", "--public-key", here / "key.pub")
    assert done.code == 0
    assert "The engine was not run." in done.out
    flip("e.engine", -1)(here)
    done = qdqtool("verify-engine", here / "e.engine", "--output-format", "json", "--model", here / "m.onnx")
    report = json.loads(done.out)
    assert (done.code, report["passed"]) == (1, False)
    assert [check["name"] for check in report["checks"] if check["status"] == "failed"] == ["engine"]
    done = qdqtool("verify-engine", here / "e.engine", "-q")
    assert (done.code, "FAILED: engine" in done.out) == (1, True)
    assert qdqtool("verify-engine", here / "m.onnx").code == 3
