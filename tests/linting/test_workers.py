"""Processes that share models end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
from support.paths import ROOT
from support.small import conv_model

SCRIPT = """
from pathlib import Path
from support.killer import judge_for_ever
from qdqtool.linting import workers
from qdqtool.linting.policy import Policy

if __name__ == "__main__":
    workers._judge = judge_for_ever
    workers.lint_files(sorted(Path({folder!r}).glob("*.onnx")), Policy(), 2)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_ends_workers_in_which_a_library_does_not_return(tmp_path: Path):
    for number in range(3):
        onnx.save(conv_model(), tmp_path / f"{number}.onnx")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path)))
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(file.stem) for file in tmp_path.glob("*.pid")]
    assert workers
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert not [pid for pid in workers if alive(pid)]
