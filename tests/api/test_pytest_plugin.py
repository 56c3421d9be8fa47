"""The pytest plugin as a user meets it: installed, in a pytest process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import pair_model
from support.small import make_model

from qdqtool.linting import rules

TESTS = """
def test_good(qdq):
    report = qdq.validate("good.onnx", target=["tensorrt", "ort-cpu"])
    assert len(report.models[0].targets) == 2

def test_bad(qdq):
    qdq.validate("bad.onnx", target="tensorrt")

def test_ignored(qdq):
    qdq.validate("bad.onnx", ignore=["QP101"])

def test_doubtful(qdq):
    qdq.validate("doubtful.onnx")

def test_doubtful_strictly(qdq):
    qdq.validate("doubtful.onnx", fail_on="warning")

def test_missing(qdq):
    qdq.validate("none.onnx")

def test_wrong_word(qdq):
    qdq.validate("good.onnx", fail_on="errors")

def test_preserved(qdq):
    assert qdq.preserved("good.onnx", "good.onnx").preserved

def test_lost(qdq):
    qdq.preserved("good.onnx", "bad.onnx")
"""
CHECKS = """
def test_kept(qdq):
    assert qdq.check("int8.onnx", baseline="float.onnx", data="data.npz", min_sqnr=10).verdict == "passed"

def test_missed(qdq):
    qdq.check("int8.onnx", baseline="float.onnx", data="data.npz", min_sqnr=90)

def test_listed(qdq):
    qdq.check("int8.onnx")

def test_listed_with_another_limit(qdq):
    assert qdq.check("int8.onnx", min_sqnr=10).baseline == "float.onnx"

def test_doubtful(qdq):
    qdq.check("float.onnx")

def test_doubtful_strictly(qdq):
    qdq.check("float.onnx", strict=True)

def test_misspelled(qdq):
    qdq.check("int8.onnx", min_snr=10)
"""


def run_pytest(folder: Path, *words: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    onnx.save(rules.get("QP101").VALID[0].model(), tmp_path / "good.onnx")
    onnx.save(rules.get("QP101").INVALID[0].model(), tmp_path / "bad.onnx")
    onnx.save(rules.get("QL302").INVALID[0].model(), tmp_path / "doubtful.onnx")
    (tmp_path / "test_models.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_the_fixture_judges_models(project: Path):
    out = run_pytest(project, "-rA")
    passed = {line.split("::")[1] for line in out.splitlines() if line.startswith("PASSED")}

    assert passed == {"test_good", "test_ignored", "test_doubtful", "test_preserved"}
    assert "error QP101 [refused] DequantizeLinear -> wd: scale 'ws' of this DQ is 0 in channel 1" in out
    assert "fix: give the channel any positive finite scale" in out
    assert "warning QL302" in out
    assert "ModelError: none.onnx: no such file" in out
    assert "fail_on is 'errors'; it must be error, warning or never" in out
    assert "good.onnx -> bad.onnx" in out
    assert re.search(r"quantized tensors? before, .* removed, ", out)


@pytest.mark.slow(reason="a test session of its own")
def test_the_fixture_checks_accuracy(tmp_path: Path):
    onnx.save(pair_model(TensorProto.INT8).proto, tmp_path / "int8.onnx")
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(make_model([node], {"x": ("n",)}, {"y": ("n",)}, {}), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.linspace(-1, 1, 32, dtype=np.float32))
    (tmp_path / "test_models.py").write_text(CHECKS)
    (tmp_path / "qdqtool.toml").write_text(
        '[[check]]\nmodel = "int8.onnx"\nbaseline = "float.onnx"\ndata = "data.npz"\nmin-sqnr = 90\n'
    )
    out = run_pytest(tmp_path, "-rA")
    passed = {line.split("::")[1] for line in out.splitlines() if line.startswith("PASSED t")}

    assert passed == {"test_kept", "test_listed_with_another_limit", "test_doubtful"}, out
    assert out.count("output 'y': min-sqnr is 90 dB, found") >= 2
    assert "qdq.check() has no option 'min_snr'; did you mean 'min_sqnr'?" in out
    assert "the model has no Q/DQ nodes" in out


def test_settings_and_baseline_of_the_project_count(project: Path):
    (project / "qdqtool.toml").write_text('ignore = ["QP101"]\nfail-on = "warning"\n')
    out = run_pytest(project, "-rA", "-k", "bad or doubtful")
    passed = {line.split("::")[1] for line in out.splitlines() if line.startswith("PASSED")}

    assert passed == {"test_bad"}
    assert "warning QL302" in out
    assert "QP101" not in out


def test_it_costs_nothing_until_it_is_used(tmp_path: Path):
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\n"
        "def test_nothing():\n"
        "    loaded = {'onnx', 'numpy', 'msgspec', 'rich', 'click', 'qdqtool.linting.rules'} & set(sys.modules)\n"
        "    assert 'qdqtool.api.pytest_plugin' in sys.modules\n"
        "    assert not loaded, loaded\n"
    )
    out = run_pytest(tmp_path, "-p", "no:hypothesispytest", "-q")

    assert "1 passed" in out, out
