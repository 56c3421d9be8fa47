"""A stand-in for TensorRT's Python module in a child process: what it does is in the name of the model's file."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

__version__ = "1.0"
NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=0)
ILogger = object


class Builder:
    def __init__(self, log: object) -> None:
        sys.stdout.write(f"noise on standard output {log}\n")

    def create_network(self, flags: int) -> int:
        return flags


class OnnxParser:
    num_errors = 0

    def __init__(self, network: object, log: object) -> None:
        del network, log

    def parse_from_file(self, path: bytes) -> bool:
        match Path(os.fsdecode(path)).stem:
            case "dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hangs":
                time.sleep(600)
            case "refused":
                self.num_errors = 1
                return False
            case "silent":
                return False
        return True

    def get_error(self, index: int) -> SimpleNamespace:
        facts = {"desc": "false", "func": "f", "node": index, "node_name": "n", "node_operator": "Op"}
        return SimpleNamespace(
            **{key: lambda value=value: value for key, value in facts.items()}, local_function_stack=tuple
        )
