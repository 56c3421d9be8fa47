"""A command for `reduce`: ``fail_on.py HOW OPERATOR MODEL [LOG]`` fails where the model has a node of that operator.

HOW is a signal, ``hang``, ``exit`` (with a message that has a number in it), or ``say`` (which prints and succeeds).
"""

import os
import signal
import sys
import time
from pathlib import Path

import onnx


def main() -> None:
    how, op_type, path, *log = sys.argv[1:]
    for name in log:
        with Path(name).open("a") as file:
            file.write(f"{Path(path).stat().st_size}\n")
    nodes = onnx.load(path).graph.node
    if op_type not in {node.op_type for node in nodes}:
        return
    if how == "hang":
        time.sleep(600)
    if how == "say":
        sys.stdout.write(f"WRONG in {op_type}\n")
        return
    if how == "exit":
        sys.exit(f"error: one of {len(nodes)} nodes is not supported")
    os.kill(os.getpid(), signal.Signals[how])


if __name__ == "__main__":
    main()
