"""A stand-in for TensorRT's Python module that builds at once: its inspector says what the model's folder holds.

The file ``inspector.json`` beside the model is the answer; without it the engine cannot be loaded.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__version__ = "11.9.0"
NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=0)
ProfilingVerbosity = SimpleNamespace(DETAILED=2)
LayerInformationFormat = SimpleNamespace(JSON=1)
_built: list[Path] = []


class ILogger:
    """Nothing is logged."""


class Builder:
    def __init__(self, log: object) -> None:
        del log

    def create_network(self, flags: int) -> SimpleNamespace:
        assert flags == 1 << NetworkDefinitionCreationFlag.STRONGLY_TYPED
        return SimpleNamespace(num_layers=0, num_inputs=0)

    def create_builder_config(self) -> SimpleNamespace:
        return SimpleNamespace()

    def build_serialized_network(self, network: object, config: Any) -> bytes:
        assert config.profiling_verbosity == ProfilingVerbosity.DETAILED
        return b"engine"


class OnnxParser:
    def __init__(self, network: object, log: object) -> None:
        del network, log

    def parse_from_file(self, path: bytes) -> bool:
        _built.append(Path(os.fsdecode(path)).parent / "inspector.json")
        return True


class Runtime:
    def __init__(self, log: object) -> None:
        del log

    def deserialize_cuda_engine(self, engine: bytes) -> "Runtime | None":
        assert engine == b"engine"
        return self if _built[-1].exists() else None

    def create_engine_inspector(self) -> "Runtime":
        return self

    def get_engine_information(self, kind: int) -> str:
        assert kind == LayerInformationFormat.JSON
        return _built[-1].read_text(encoding="utf-8")
