"""What other systems read from this repository: the pre-commit hooks and the GitHub action."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest
from support import sarif
from support.paths import ROOT

from qdqtool.linting import rules


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "models" / "deep").mkdir(parents=True)
    onnx.save(rules.get("QP101").INVALID[0].model(), tmp_path / "models" / "deep" / "bad one.onnx")
    onnx.save(rules.get("QP101").VALID[0].model(), tmp_path / "models" / "good.onnx")
    return tmp_path


def run_action(folder: Path, **inputs: str) -> tuple[int, str]:
    """The step of the action, with the qdqtool of this environment on the PATH."""
    environment = {**os.environ, **inputs, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "action.sh"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_action_annotates_and_writes_every_report(repository: Path):
    code, out = run_action(
        repository,
        MODELS="models/**/*.onnx",
        TARGETS="tensorrt,ort-cpu",
        BASELINE="",
        FAIL_ON="",
        SARIF_FILE="out.sarif",
        JUNIT_FILE="out.xml",
        ARGUMENTS="--select QP101,QP102 --ignore QP102",
        GITHUB_STEP_SUMMARY=str(repository / "summary.md"),
    )

    assert code == 1
    assert "::error file=models/deep/bad one.onnx,line=1,title=QP101 " in out
    uris = {
        result.locations[0].physical_location.artifact_location.uri
        for result in sarif.read((repository / "out.sarif").read_text()).results
    }
    assert uris == {"models/deep/bad%20one.onnx"}
    assert (repository / "out.xml").read_text().count("<testsuite ") == 2
    assert "| models/deep/bad one.onnx | tensorrt | fail |" in (repository / "summary.md").read_text()


def test_the_summary_is_appended(repository: Path):
    summary = repository / "summary.md"
    summary.write_text("before\n")
    code, _ = run_action(repository, MODELS="models/good.onnx", GITHUB_STEP_SUMMARY=str(summary))

    assert code == 0
    assert summary.read_text().startswith("before\n## qdqtool validate\n")


def test_the_action_fails_without_a_model(repository: Path):
    code, out = run_action(repository, MODELS="nothing/*.onnx")

    assert code == 2
    assert out.startswith("::error ")


def test_the_action_checks_the_models_of_the_settings(repository: Path):
    (repository / "qdqtool.toml").write_text('[[check]]\nmodel = "models/good.onnx"\nmax-weight-steps = 0\n')
    common = {"COMMAND": "check", "MODELS": "models/*.onnx", "JUNIT_FILE": "out.xml", "SARIF_FILE": "out.sarif"}
    code, out = run_action(repository, **common, ARGUMENTS="--samples 1")
    strict, _ = run_action(repository, **common, ARGUMENTS="--strict")

    assert (code, strict) == (0, 1)
    assert "::warning file=models/good.onnx,line=1,title=check check::" in out
    assert (repository / "out.xml").read_text().count("<testsuite ") == 1
    assert {each.level for each in sarif.read((repository / "out.sarif").read_text()).results} == {"warning"}


def test_the_action_knows_two_commands(repository: Path):
    code, out = run_action(repository, COMMAND="build", MODELS="models/good.onnx")

    assert code == 2
    assert out.startswith("::error ")


def test_inputs_of_the_action_are_no_code(repository: Path):
    code, _ = run_action(repository, MODELS="models/good.onnx $(touch owned) `touch owned`", TARGETS="$(touch owned)")

    assert code == 2
    assert not (repository / "owned").exists()


def test_the_action_passes_every_input_on():
    text = (ROOT / "action.yml").read_text()
    script = (ROOT / ".ci" / "action.sh").read_text()
    inputs = re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", text)
    declared = re.findall(r"^  ([a-z-]+):$", text.split("inputs:")[1].split("\nruns:")[0], re.MULTILINE)

    assert sorted(set(inputs)) == sorted(declared)
    for name in set(declared) - {"python-version"}:
        assert f"${{{name.upper().replace('-', '_')}" in script or f"${name.upper().replace('-', '_')}" in script


def test_the_hooks_call_a_command_that_exists():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()

    names = [f"qdqtool-{name}" for name in ("validate", "validate-system", "check", "check-system")]
    assert re.findall(r"^- id: (.+)$", text, re.MULTILINE) == names
    assert set(re.findall(r"^  entry: (.+)$", text, re.MULTILINE)) == {"qdqtool validate", "qdqtool check"}


def test_the_hook_of_check_installs_what_a_check_needs():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cpu"]
    installed = re.findall(r"^  additional_dependencies: \[(.+)\]$", text, re.MULTILINE)

    assert installed == [", ".join(re.match(r"[\w-]+", each)[0] for each in extra if "tensorrt" not in each)]
