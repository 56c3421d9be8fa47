"""Writes the models that one tool quantizes. Runs in the environment of that tool.

    python -m benchmarks.foreign_models.make FOLDER TOOL [MODE ...]

Each mode becomes ``FOLDER/TOOL.MODE.onnx`` with its float model ``TOOL.MODE.float.onnx`` and the arrays
``TOOL.MODE.calib.npz`` and ``TOOL.MODE.test.npz``, or ``TOOL.MODE.failed`` with the message. ``TOOL.versions`` names
the releases of the tool and of what it stands on.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from benchmarks.foreign_models.samples import Sample, Write
from benchmarks.foreign_models.tools import TOOLS


def main(words: Sequence[str]) -> None:
    """Write the modes of a tool that are named, or all."""
    folder, tool, *asked = words
    Path(folder).mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    packages = next(each.versions for each in TOOLS if each.name == tool)
    versions = ", ".join(f"{name} {metadata.version(name).partition('+')[0]}" for name in packages)
    Path(folder, f"{tool}.versions").write_text(versions, encoding="utf-8")
    maker = importlib.import_module(f"benchmarks.foreign_models.makers.{tool}")
    for mode, (network, write) in maker.MODES.items():
        if not asked or mode in asked:
            failure = made(Sample(network, Path(folder) / f"{tool}.{mode}.onnx"), write)
            print(f"{tool}.{mode}: {failure or 'written'}", flush=True)


def made(sample: Sample, write: Write) -> str:
    """Write one model, and return why there is none, or nothing."""
    failed = sample.path.with_suffix(".failed")
    for path in (failed, sample.path):
        path.unlink(missing_ok=True)
    try:
        sample.prepare()
        write(sample)
    except Exception as error:  # noqa: BLE001 - tools raise what they like
        sample.path.unlink(missing_ok=True)
        message = _described(error)
        failed.write_text(message, encoding="utf-8")
        return message
    return ""


def _described(error: BaseException) -> str:
    """Return what an error says; its first cause says more where an exporter wraps it in advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1:])
