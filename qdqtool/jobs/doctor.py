"""The doctor job: report what works on this machine, why other things do not, and what to install."""

import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qdqtool.engines.gpu.requirements import NEVER_RUN
from qdqtool.engines.tensorrt.gpus import find_gpus
from qdqtool.jobs.doctor_report import CommandState, Component, DoctorReport, KnownTarget, State
from qdqtool.models import targets

INSTALL_ORT = "`pip install onnxruntime`"
INSTALL_RTX = "`pip install tensorrt-rtx` (Linux x86-64 and Windows x64)"
INSTALL_TRT = "`pip install tensorrt` (its libraries come from the package index of NVIDIA)"
_IMPORT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class _Package:
    module: str
    distributions: tuple[str, ...]
    install: str
    needed_for: str = ""
    """The use of the package, if it is not the list of commands that import it."""


_PACKAGES = (
    _Package("onnx", ("onnx",), "`pip install onnx`", "every command"),
    _Package("onnx_graphsurgeon", ("onnx-graphsurgeon",), "`pip install onnx-graphsurgeon`"),
    _Package("onnxruntime", ("onnxruntime-gpu", "onnxruntime"), INSTALL_ORT),
    _Package("tensorrt_rtx", ("tensorrt-rtx", "tensorrt_rtx"), INSTALL_RTX),
    _Package("tensorrt", ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"), INSTALL_TRT),
    _Package("cuda.bindings", ("cuda-python", "cuda-bindings"), "`pip install cuda-python`"),
    _Package("pynvml", ("nvidia-ml-py",), "`pip install nvidia-ml-py`", "clocks in bench; optional"),
    _Package(
        "onnxruntime_ep_nv_tensorrt_rtx",
        ("onnxruntime-ep-nv-tensorrt-rtx", "onnxruntime-ep-nv-tensorrt-rtx-cu13"),
        "`pip install onnxruntime-ep-nv-tensorrt-rtx-cu13`",
        "run and bench of ONNX models; optional",
    ),
    _Package("PIL", ("pillow",), "`pip install pillow`", "folders of images; optional"),
    _Package("soundfile", ("soundfile",), "`pip install soundfile soxr`", "sound files; optional"),
    _Package("soxr", ("soxr",), "`pip install soundfile soxr`", "sound files of other rates; optional"),
    _Package("tokenizers", ("tokenizers",), "`pip install tokenizers`", "text; optional"),
    _Package("distributed", ("distributed",), "`pip install distributed`", "calibrate --dask; optional"),
    _Package("numba", ("numba",), "`pip install numba`", "faster kernels; optional"),
)

_READS = (
    "inspect",
    "verify-engine",
    "validate",
    "diff",
    "merge",
    "convert-ranges",
    "migrate",
    "report",
    "rules",
    "explain",
    "schema",
    "doctor",
)
_EDITS = ("insert", "strip")
_RUNS = ("normalize", "cast", "validate --fix", "calibrate", "quantize", "sensitivity", "convert")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_READS, ("onnx",)),
    **dict.fromkeys(_EDITS, ("onnx", "onnx_graphsurgeon")),
    **dict.fromkeys(_RUNS, ("onnx", "onnx_graphsurgeon", "onnxruntime")),
    "check": ("onnx", "onnxruntime"),
    "reduce": ("onnx",),
    "build --backend tensorrt-rtx": ("onnx", "tensorrt_rtx"),
    "build --backend tensorrt": ("onnx", "tensorrt"),
    "run": ("onnx", "cuda.bindings", "tensorrt_rtx"),
    "bench": ("onnx", "cuda.bindings", "tensorrt_rtx"),
    "check --engine": ("onnx", "onnxruntime", "cuda.bindings", "tensorrt_rtx"),
}
"""The modules that each command imports."""
_ON_GPU = ("run", "bench", "check --engine")


def examine() -> DoctorReport:
    """Return a report on this machine. Packages are imported in child processes, because a broken one may crash."""
    from qdqtool.results import __version__

    components = {package.module: _component(package) for package in _PACKAGES}
    gpus, gpu_note = find_gpus()
    return DoctorReport(
        qdqtool=__version__,
        python=f"{platform.python_version()} ({sys.executable})",
        platform=f"{platform.system()} {platform.machine()}",
        gpus=gpus,
        gpu_note=gpu_note,
        components=tuple(components.values()),
        commands=tuple(_commands(components, gpu_note)),
        targets=tuple(_targets()),
        problems=tuple(_problems(components)),
    )


def _component(package: _Package) -> Component:
    installed = [(name, version) for name in package.distributions if (version := _version(name))]
    name, version = installed[0] if installed else (package.distributions[0], None)
    error = _import_error(package.module) if version else ""
    state: State = "missing" if version is None else "broken" if error else "ok"
    note = error or (package.install if version is None else "")
    commands = tuple(command for command, modules in _NEEDS.items() if package.module in modules)
    needed_for = (package.needed_for,) if package.needed_for else commands
    return Component(name=name, state=state, version=version, note=note, needed_for=needed_for)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_error(module: str) -> str:
    code = f"import {module}"
    try:
        done = subprocess.run(  # noqa: S603  our own interpreter with a module name from the table above
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"import takes longer than {_IMPORT_SECONDS} s"
    if done.returncode == 0:
        return ""
    last = done.stderr.strip().splitlines()
    return f"import fails: {last[-1]}" if last else f"import ends with code {done.returncode}"


def _commands(components: dict[str, Component], gpu_note: str) -> Iterator[CommandState]:
    for command, modules in _NEEDS.items():
        parts = [components[module] for module in modules if components[module].state != "ok"]
        lacking = [f"{part.name} is {part.state}: {part.note}" for part in parts]
        remark = ""
        if command in _ON_GPU:
            lacking = [*([f"no GPU: {gpu_note}"] if gpu_note else []), *lacking]
            remark = f"{NEVER_RUN}: `qdqtool explain build`"
        yield CommandState(command=command, works=not lacking, reason="; ".join(lacking), remark=remark)


def _targets() -> Iterator[KnownTarget]:
    for name in targets.names():
        target, releases = targets.get(name), targets.releases(name)
        yield KnownTarget(name=name, title=target.title, verified=target.verified)
        if releases:
            first, last = targets.get(releases[0]), targets.get(releases[-1])
            span, titles = f"{first.id} to {last.id}", f"{first.title} to {last.title}"
            yield KnownTarget(name=span, title=titles, verified=first.verified)


def _problems(components: dict[str, Component]) -> list[str]:
    problems = [f"{part.name} {part.version}: {part.note}" for part in components.values() if part.state == "broken"]
    if _version("onnxruntime") and _version("onnxruntime-gpu"):
        problems.append(
            "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files: "
            "`pip uninstall -y onnxruntime onnxruntime-gpu`, then install one of them"
        )
    return problems
