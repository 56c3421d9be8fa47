"""Insert, validate and check ONNX QuantizeLinear/DequantizeLinear nodes, and build TensorRT engines from them.

The public names are listed in ``__init__.pyi`` beside this file, in :mod:`qdqtool.interop` and in
:mod:`qdqtool.errors`; every other module may change without notice. Importing this package is instant: a public name is
loaded when it is first used.
"""

import importlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

# Official builds of ONNX Runtime from 1.31 on send usage data to Microsoft, and write $TMPDIR/.ses when they are
# imported, through any link of that name.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@cache
def _homes() -> dict[str, str]:
    """Return the module of each public name in the stub."""
    stub = Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")
    imports = re.findall(r"^from (\S+) import (\([^)]*\)|.*)", stub, re.MULTILINE)
    return {name: module for module, names in imports for name in re.findall(r" as (\w+)", names)}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*_homes()]
    if name.startswith("__") and name != "__version__":
        raise AttributeError(name)
    if name not in _homes():
        raise AttributeError(f"module 'qdqtool' has no attribute '{name}'")
    home = importlib.import_module(_homes()[name])
    is_module = hasattr(home, "__path__")
    return importlib.import_module(f"{home.__name__}.{name}") if is_module else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(_homes())
