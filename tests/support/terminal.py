"""A terminal for child processes: what they print on it is read from the other end."""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path


def on_a_terminal(*words: str | Path, columns: int = 80, timeout: float = 300, **environment: str) -> tuple[int, str]:
    """Run ``qdqtool`` with these words on a terminal; return its exit code and what it shows there.

    Args:
        words: The command line.
        columns: Characters in a line of the terminal.
        timeout: Seconds after which the process is killed.
        environment: Variables that the process has besides those of this one.
    """
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    # What the tests themselves run under must not decide how wide the terminal is, nor what it can do.
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "FORCE_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "qdqtool", *map(str, words)],
        stdin=follower,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env={**kept, "TERM": "xterm-256color", **environment},
    )
    os.close(follower)
    shown, end = bytearray(), time.monotonic() + timeout
    try:
        while select.select([leader], [], [], max(0, end - time.monotonic()))[0]:
            try:
                shown += os.read(leader, 65536)
            except OSError:  # Linux says so that no process has the terminal open any more
                break
    finally:
        os.close(leader)
        if time.monotonic() > end:
            process.kill()
        code = process.wait()
    return code, shown.decode().replace("\r\n", "\n")
