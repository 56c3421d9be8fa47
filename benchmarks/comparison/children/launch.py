"""Run a command, and write its time and peak memory to a file: ``python -I -S launch.py RESULT COMMAND...``.

A process of its own because Linux gives a new process the peak memory of the one that forked it, which is large for
the benchmark and small for this script. What the command imports is kept compiled, as wherever a tool is used more
than once: else half a second of each run is compiling. Standard library only.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path


def main() -> None:
    """Run, wait, write."""
    result, command = sys.argv[1], sys.argv[2:]
    begin = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = os.posix_spawnp(command[0], command, environment)
    _, status = os.waitpid(process, 0)
    wall = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = {
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "code": os.waitstatus_to_exitcode(status),
    }
    Path(result).write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
