"""The facts that decide how a machine rounds: the versions of packages, and the processor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from qdqtool.errors import CapabilityError, plural
from qdqtool.models.running.machine import cpu_features, cpu_name
from qdqtool.results import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUsed:
    """The workers that ran samples.

    Attributes:
        scheduler: The scheduler, as the user named it.
        workers: Number of workers that ran samples.
        lost: Addresses of workers that left before the end. Other workers ran their samples again.
        sent: Number of workers to which the model was sent; the others read the files at the path of this machine.
        other_processors: Processors of workers that differ from this machine's processor; ranges may differ by
            rounding.
    """

    scheduler: str
    workers: int
    lost: tuple[str, ...]
    sent: int
    other_processors: tuple[str, ...]


PACKAGES = ("qdqtool", "onnxruntime", "numpy")
"""Packages that must have the same version on client and workers: another release may round differently."""
PROCESSOR = "processor"

Machine: TypeAlias = Mapping[str, str | None]
"""Versions of :data:`PACKAGES` (None for a package that is not installed), and the :data:`PROCESSOR`: its name,
instruction sets and number of CPUs, which is the number of threads of ONNX Runtime. All are plain strings, because the
other side may have another version of qdqtool.
"""


def this_machine() -> Machine:
    """Return the description of the machine of this process."""
    import numpy as np

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    features = " ".join(cpu_features()) or "instruction sets unknown"
    return {
        "qdqtool": __version__,
        "onnxruntime": _onnxruntime_version(),
        "numpy": np.__version__,
        PROCESSOR: f"{cpu_name()}, {plural(cpus, 'CPU')}, {features}",
    }


def _onnxruntime_version() -> str | None:
    try:
        import onnxruntime
    except ImportError:
        return None
    return str(onnxruntime.__version__)


def require_versions(worker: str, found: Machine, here: Machine) -> None:
    """Check that a worker has the package versions of this machine.

    Raises:
        CapabilityError: A version differs.
    """
    for name in PACKAGES:
        theirs, ours = found.get(name), here[name]
        if theirs == ours:
            continue
        raise CapabilityError(
            f"worker {worker} has {_named(name, theirs)}, and this machine has {_named(name, ours)}; other versions "
            "may give other ranges",
            hint=f"in the environment of the worker: {_installing(name, ours)}"
            if ours
            else f"on this machine: {_installing(name, theirs)}",
        )


def _installing(name: str, version: str | None) -> str:
    # qdqtool is in no package index.
    return f"install the wheel of qdqtool {version}" if name == "qdqtool" else f"`pip install {name}=={version}`"


def _named(name: str, version: str | None) -> str:
    return f"no {name}" if version is None else f"{name} {version}"
