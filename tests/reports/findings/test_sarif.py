"""SARIF against the schema of the standard, for every kind of run; and paths as URIs."""

import hashlib
import importlib.metadata
import json
from email.message import Message
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import unquote

import onnx
import pytest
from jsonschema import Draft202012Validator
from support.paths import ROOT

from qdqtool.jobs.check_models import check_models, read_checks
from qdqtool.jobs.validate import validate_files
from qdqtool.linting import rules
from qdqtool.linting.baseline import read_baseline, without_known, write_baseline
from qdqtool.linting.policy import Policy
from qdqtool.linting.report import ValidateReport
from qdqtool.models import targets
from qdqtool.reports.finding_words import file_uri
from qdqtool.reports.findings import sarif
from qdqtool.reports.kinds.check import as_findings

GOLDEN = ROOT / "tests" / "golden" / "sarif"
SCHEMA = (GOLDEN / "sarif-2.1.0.json").read_bytes()
VALIDATOR = Draft202012Validator(json.loads(SCHEMA), format_checker=Draft202012Validator.FORMAT_CHECKER)
HOSTILE = "\x1b[31m[bold]n\nm\u202e\x00\ufffe::set-output,%0A|<b>`x`@you\r{0}{{"
EVERYWHERE = (*targets.names(), "tensorrt-10.0")


def problems(report: ValidateReport) -> list[str]:
    log = json.loads(sarif.render(report))
    return [f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in VALIDATOR.iter_errors(log)]


def judged(*names: str, policy: Policy | None = None) -> ValidateReport:
    return validate_files([Path(name) for name in names], policy or Policy(targets=EVERYWHERE))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository")
    onnx.save(rules.get("QP101").VALID[0].model(), "good.onnx")
    onnx.save(rules.get("QP101").INVALID[0].model(), "bad.onnx")
    return tmp_path


def test_the_schema_is_the_one_that_is_described():
    assert hashlib.sha256(SCHEMA).hexdigest() in (GOLDEN / "README.md").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(SCHEMA))
    assert {"uri", "uri-reference"} <= set(VALIDATOR.format_checker.checkers)


@pytest.mark.parametrize(
    ("place", "value"),
    [(("level",), "bad"), (("extra",), 1), (("locations", 0, "physicalLocation", "artifactLocation", "uri"), "a b")],
)
def test_the_schema_sees_what_is_wrong(place: tuple[str | int, ...], value: object):
    log = json.loads(sarif.render(judged("bad.onnx")))
    part = log["runs"][0]["results"][0]
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    assert not VALIDATOR.is_valid(log)


def test_findings():
    report = judged("bad.onnx")
    assert report.findings
    assert problems(report) == []


def test_no_findings():
    report = judged("good.onnx", policy=Policy(select=("QP101",)))
    assert not report.findings
    assert problems(report) == []


def test_no_models():
    assert problems(judged()) == []


def test_every_example_of_every_rule():
    for rule in rules.catalogue():
        for index, example in enumerate(rule.INVALID):
            onnx.save(example.model(), f"{rule.code}.{index}.onnx")
    report = judged(*map(str, sorted(Path().glob("Q*.onnx"))))
    assert len({finding.code for finding in report.findings}) >= len(rules.catalogue()) - 5
    assert problems(report) == []


def test_models_that_cannot_be_read():
    Path("nonsense.onnx").write_bytes(b"\xff" * 40)
    Path("pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n")
    report = judged("nonsense.onnx", "pointer.onnx", "absent.onnx", "bad.onnx", "good.onnx")
    assert len(report.unreadable) == 3
    assert problems(report) == []


def test_hostile_names_in_the_model_and_of_the_file():
    model = rules.get("QP101").INVALID[0].model()
    for node in model.graph.node:
        node.name = HOSTILE + node.output[0]
    onnx.save(model, "plain.onnx")
    name = "%0A,x|[bold]\x1b[31m<b>\n #?ä{0}\udcff.onnx"
    Path("plain.onnx").rename(name)

    assert problems(judged(name)) == []


def test_suppressed_and_known_findings():
    model = rules.get("QP101").INVALID[0].model()
    model.metadata_props.add(key="qdqtool.ignore", value="ALL: known")
    onnx.save(model, "quiet.onnx")
    suppressed = judged("quiet.onnx")
    bad = judged("bad.onnx")
    write_baseline(bad, Path("baseline.json"))
    known = without_known(bad, read_baseline(Path("baseline.json")), Path()).report

    assert suppressed.summary.suppressed
    assert known.summary.known
    assert problems(suppressed) == problems(known) == []


def test_checks():
    Path("nonsense.onnx").write_bytes(b"\xff" * 40)
    models = ("good.onnx", "nonsense.onnx")
    Path("qdqtool.toml").write_text("".join(f'[[check]]\nmodel = "{name}"\n' for name in models))
    checks = as_findings(check_models(read_checks(Path("qdqtool.toml")), Path("qdqtool.toml")))

    assert {finding.severity for finding in checks.findings} == {"error", "warning"}
    assert problems(checks) == []


def test_a_package_with_an_address(monkeypatch: pytest.MonkeyPatch):
    def driver(address: str) -> dict[str, Any]:
        metadata = Message()
        metadata["Version"] = "9.9"
        metadata["Project-URL"] = f"Documentation, {address}"
        monkeypatch.setattr(importlib.metadata, "metadata", lambda _: metadata)
        report = judged("bad.onnx")
        assert problems(report) == []
        made: dict[str, Any] = json.loads(sarif.render(report))["runs"][0]["tool"]["driver"]
        assert made["version"] == "9.9"
        return made

    assert (
        driver("https://docs.example/qdqtool/")["rules"][0]["helpUri"] == "https://docs.example/qdqtool/rules/QA201.md"
    )
    assert all("helpUri" not in rule for rule in driver("see the README")["rules"])


def test_a_file_outside_the_repository_has_an_absolute_uri(folder: Path):
    outside = folder / "out side.onnx"
    onnx.save(rules.get("QP101").INVALID[0].model(), outside)
    report = judged(f"../{outside.name}")
    artifact = json.loads(sarif.render(report))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]

    assert artifact["artifactLocation"] == {"uri": f"file://{folder}/out%20side.onnx"}
    assert problems(report) == []


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("models/a b#?%.onnx"), "models/a%20b%23%3F%25.onnx"),
        (PurePosixPath("c:d.onnx"), "c%3Ad.onnx"),
        (PurePosixPath("/tmp/ä.onnx"), "file:///tmp/%C3%A4.onnx"),
        (PurePosixPath("\udcff.onnx"), "%FF.onnx"),
        (PureWindowsPath(r"models\a b.onnx"), "models/a%20b.onnx"),
        (PureWindowsPath(r"C:\models\ä.onnx"), "file:///C:/models/%C3%A4.onnx"),
        (PureWindowsPath(r"\\server\share\m.onnx"), "file://server/share/m.onnx"),
    ],
)
def test_paths_are_uris_on_every_system(path: PurePath, uri: str):
    assert file_uri(path) == uri
    assert VALIDATOR.format_checker.conforms(uri, "uri-reference")
    assert unquote(uri).isprintable()
