"""What a run leaves behind is found: a process, also an orphan, a port, a temporary file."""

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support import leftovers
from support.leftovers import Leftovers


def test_what_is_left_is_named_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leftovers, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "")
    watched = Leftovers(tmp_path)
    assert list(watched.found()) == []

    sleeping = "import time; time.sleep(99)"
    child = subprocess.Popen([sys.executable, "-c", sleeping])
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{sleeping} # orphan'])"
    subprocess.run([sys.executable, "-c", orphan], check=True)
    watched.note("tests/test_one.py")
    tempfile.NamedTemporaryFile(delete=False, prefix="left-").close()
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = list(watched.found())
        assert f"port {server.getsockname()[1]}, which still listens" in found

    assert sum("time.sleep(99)" in each and each.endswith("after tests/test_one.py") for each in found) == 2
    assert sum(each.startswith("temporary file left-") for each in found) == 1
    assert child.wait(5)
