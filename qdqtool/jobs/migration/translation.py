"""Make the commands of qdqtool that replace a line of another tool, and tell what became of each option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from qdqtool.errors import UsageError
from qdqtool.jobs.migration.lines import ToolLine, ToolOption
from qdqtool.jobs.migration.request import Request, repeated
from qdqtool.samples.input_shapes import Shapes

PLACEHOLDER = "DATA"
"""Stands for calibration data that a line does not name."""

Fate = Literal["same", "other", "default", "none"]

_OURS: Mapping[str, str] = {
    "model": "MODEL",
    "engine": "build -o",
    "output": "quantize -o",
    "load": "bench ENGINE",
    "half": "cast --to",
    "mode": "quantize --quantize-mode",
    "cache": "quantize --calibration-cache",
    "data": "quantize --calib-data",
    "method": "quantize --calibration-method",
    "external": "quantize --external-data",
    "typed": "build",
    "constraints": "build",
    "layers": "cast --nodes-to-exclude",
    "profile": "build --profile",
    "io": "cast --io-types",
    "pools": "build --mem-pool-size",
    "workspace": "build --mem-pool-size",
    "gpus": "build --compute-capabilities",
    "log": "build --verbose-log",
    "verify": "verify-engine",
    "convert": "build",
    "kind": "",
    "usual": "",
}
"""The counterpart of a slot that is not a command of qdqtool."""

_IN_QUANTIZE = {"half": "quantize --high-precision-dtype", "layers": "quantize --nodes-to-exclude"}
"""Counterparts in a line that also quantizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedOption:
    """What became of an option.

    Attributes:
        given: The option with its values.
        ours: The counterpart; empty if there is none.
        fate: ``same`` name, ``other`` name, ``default``: nothing to do, or ``none``: no counterpart.
        reason: What differs, or why there is no counterpart.
        changes_result: Whether engine or results differ because there is no counterpart.
        removed_in: The release of TensorRT that removed the option; empty for none.
    """

    given: str
    ours: str
    fate: Fate
    reason: str
    changes_result: bool
    removed_in: str


def counterpart(option: ToolOption) -> str:
    """Return the command and option of qdqtool that replace an option; empty if there is none."""
    slot, _, rest = option.to.partition(" ")
    names = {"shapes": f"build --{'opt' if rest == 'run' else rest}-shapes", "nodes": f"quantize {rest}"}
    return names.get(slot) or _OURS.get(slot, option.to)


def fate_of(name: str, option: ToolOption, ours: str) -> Fate:
    """Return what becomes of an option, given its name and its counterpart."""
    if not ours:
        return "default" if option.idle else "none"
    return "same" if _letters(name) == _letters(ours.rpartition(" ")[2]) else "other"


def rows(line: ToolLine, request: Request) -> Iterator[MigratedOption]:
    """Yield what became of each option of a line."""
    for given in line.options:
        option, ours = given.option, counterpart(given.option)
        if "mode" in request.value and not request.casts:
            ours = _IN_QUANTIZE.get(option.to.partition(" ")[0], ours)
        fate, lost, reason = fate_of(given.name, option, ours), bool(option.lost), option.reason
        if given.name in request.fates:
            word, reason = request.fates[given.name]
            ours, lost, fate = "", word == "none", "none" if word == "none" else "default"
        yield MigratedOption(
            given=given.text, ours=ours, fate=fate, reason=reason, changes_result=lost, removed_in=option.gone
        )


def commands(program: str, request: Request, calib_data: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands that do what a line asks for, each with its words.

    Args:
        program: The program that the line calls.
        request: What it asks for.
        calib_data: Samples for a command that needs some; empty for none.

    Raises:
        UsageError: The line writes a model, and nothing in it is known to qdqtool.
    """
    value, rtx = request.value, program == "tensorrt_rtx"
    if request.has_engine:
        yield from _with_engine(program, request, value["load"])
        return
    model = _place(value["model"])
    stem, mode, io = model.removesuffix(".onnx"), value.get("mode"), value.get("io")
    half, casts = request.half, request.casts
    engine, external = value.get("engine", f"{stem}.engine"), ("--external-data", "always") * ("external" in value)
    is_model = value.get("convert") == "onnx" or (program == "polygraphy" and engine.endswith(".onnx"))
    if mode:
        made = value.get("output", f"{stem}.{mode}.onnx")
        yield (
            *("qdqtool", "quantize", model, "--quantize-mode", mode, *_ranges(request, mode, calib_data)),
            *(("--target", "tensorrt-rtx") * rtx),
            *(() if "output" in value else ("--high-precision-dtype", half if half and not casts else "fp32")),
            *repeated("--nodes-to-exclude", (name for name, kind in request.layers.items() if kind != "quantized")),
            *(*request.words["quantize"], *external, "-o", made),
        )
        model, stem = made, made.removesuffix(".onnx")
    if casts:
        made = engine if is_model else f"{stem}.{half}.onnx"
        samples = repeated("--input-shapes", _spelled(_optimum(request.profiles["0"])))
        yield (
            *("qdqtool", "cast", model, "--to", half, *(("--io-types", io) if io else ())),
            *repeated("--nodes-to-exclude", (name for name, kind in request.layers.items() if kind == "fp32")),
            *(*(("--data", calib_data) if calib_data else samples), *external, "-o", made),
        )
        model = made
    if is_model and not casts:
        raise UsageError("the line writes an ONNX model, and changes nothing in it that qdqtool changes")
    if not is_model and "output" not in value:
        yield (
            *("qdqtool", "build", model, "-o", engine, *(("--backend", "tensorrt-rtx") * rtx)),
            *(*_shapes(request), *request.words["build"], *(("--verbose-log", f"{engine}.log") * ("log" in value))),
        )
        yield from _with_engine(program, request, engine)


def _with_engine(program: str, request: Request, engine: str) -> Iterator[tuple[str, ...]]:
    value = request.value
    asked = [command for command in ("verify-engine", "inspect") if command.partition("-")[0] in value]
    yield from (("qdqtool", command, _place(engine)) for command in asked)
    # trtexec times each engine. A line that saves the engine and has no option for times is taken for a build.
    is_timed = not asked if request.has_engine else not value.keys() & {"engine", "build"}
    if "bench" in value or (is_timed and program != "polygraphy"):
        yield ("qdqtool", "bench", _place(engine), *request.words["bench"])


def _ranges(request: Request, mode: str, calib_data: str) -> Sequence[str]:
    cache, data = request.value.get("cache"), calib_data or request.value.get("data")
    if cache and not (data and not Path(cache).is_file()):
        return "--calibration-cache", cache
    return () if mode == "int4" and not data else ("--calib-data", data or PLACEHOLDER)


def _shapes(request: Request) -> Iterator[str]:
    for number, kinds in request.profiles.items():
        if len(request.profiles) > 1 and kinds:
            yield from ("--profile", number)
        for kind, found in (("min", kinds.get("min", {})), ("opt", _optimum(kinds)), ("max", kinds.get("max", {}))):
            yield from repeated(f"--{kind}-shapes", _spelled(found))


def _optimum(kinds: Mapping[str, Shapes]) -> Shapes:
    """Return the optimum of each input of a profile; the tools take another shape if it is not given."""
    found = dict[str, tuple[int, ...]]()
    for kind in ("run", "min", "max", "opt"):
        found |= kinds.get(kind, {})
    return found


def _spelled(shapes: Shapes) -> Iterator[str]:
    return (f"{name}:{'x'.join(map(str, shape)) or '[]'}" for name, shape in shapes.items())


def _place(path: str) -> str:
    """Return a path that cannot be taken for an option."""
    return f"./{path}" if path.startswith("-") else path


def _letters(option: str) -> str:
    return re.sub(r"[-_]", "", option).lower()
