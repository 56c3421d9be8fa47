"""Models quantized by other tools, from their export to an engine, on one page.

    python benchmarks/foreign.py --torch PYTHON --folder foreign --json foreign.json --markdown docs/developers/foreign.md
    python benchmarks/foreign.py --folder foreign --only brevitas,onnxruntime.nbits_8
    python benchmarks/foreign.py --render --json foreign.json --markdown docs/developers/foreign.md

Every tool quantizes small networks with random weights from a seed, in an environment of its own, and exports ONNX.
PYTHON has torch, torchvision and onnxscript (the extra ``zoo``); without ``--torch`` the files in ``--folder`` serve.
Nothing is downloaded but packages. Each model then runs in a process of its own: ``validate``, and the shortest way to
an engine of TensorRT for RTX, by ``build`` alone, after ``validate --fix``, after ``normalize``, or after unsafe fixes.
The exit code is 1 where a row breaks a promise, which is printed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.foreign_models import environments, page, row
from benchmarks.foreign_models.row import Row
from benchmarks.foreign_models.tools import TOOLS, Tool
from benchmarks.networks import processes, storage
from benchmarks.networks.options import add_output_options

MODELS, ENVIRONMENTS = "models", "environments"
LIMIT = 600
"""Seconds that one model may take."""


def main() -> None:
    """Write the models, run every one, and show the page."""
    arguments = _arguments()
    known = Path(arguments.json) if arguments.json else None
    rows = storage.read(known, row.from_json) if known is not None and known.exists() else {}
    if not arguments.render:
        with tempfile.TemporaryDirectory() as scratch:
            _run_all(arguments, Path(arguments.folder or scratch).resolve(), rows)
    ordered = [each for tool in TOOLS for name, each in sorted(rows.items()) if name.partition(".")[0] == tool.name]
    if arguments.markdown:
        page.put(Path(arguments.markdown), ordered)
    problems = [problem for each in ordered for problem in page.problems(each)]
    print("\n".join(problems) or f"{len(ordered)} models, no promise broken")
    sys.exit(bool(problems))


def _run_all(arguments: argparse.Namespace, folder: Path, rows: dict[str, Row]) -> None:
    models, asked = folder / MODELS, [word for word in arguments.only.split(",") if word]
    if arguments.torch:
        _write(arguments.torch, folder, asked)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for made in pool.map(lambda name: _row(models, name), _names(models, asked)):
            rows[made.name] = made
            print(page.line(made), file=sys.stderr, flush=True)
            if arguments.json:
                storage.write(Path(arguments.json), rows)


def _write(torch: str, folder: Path, asked: Sequence[str]) -> None:
    """Let every tool write its models, or those that are asked for."""
    processes.run_module(torch, "benchmarks.foreign_models.floats", str(folder / MODELS))
    for tool in TOOLS:
        modes = [word.partition(".")[2] for word in asked if word.partition(".")[0] == tool.name]
        if modes or not asked:
            _write_tool(tool, torch, folder, [mode for mode in modes if mode])


def _write_tool(tool: Tool, torch: str, folder: Path, modes: Sequence[str]) -> None:
    """Let one tool write its models; what it cannot leaves a message."""
    failed = folder / MODELS / f"{tool.name}.failed"
    failed.unlink(missing_ok=True)
    try:
        python = environments.python_of(tool, folder / ENVIRONMENTS, torch)
        processes.run_module(python, "benchmarks.foreign_models.make", str(folder / MODELS), tool.name, *modes)
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr or error).strip().splitlines()
        failed.write_text(lines[-1], encoding="utf-8")
        print(f"{tool.name}: {lines[-1]}", file=sys.stderr, flush=True)


def _names(models: Path, asked: Sequence[str]) -> list[str]:
    """Return the models that are there, and those that a tool could not write."""
    written = {path.name.removesuffix(".onnx") for path in models.glob("*.onnx") if ".float." not in path.name}
    found = sorted(written | {path.name.removesuffix(".failed") for path in models.glob("*.failed")})
    names = [name for name in found if not asked or name in asked or name.partition(".")[0] in asked]
    if not names:
        raise SystemExit(f"no models of {', '.join(asked) or 'any tool'} in {models}; --torch writes them")
    return names


def _row(models: Path, name: str) -> Row:
    """Run one model in a process of its own, which may crash."""
    start = time.monotonic()
    failed, versions = models / f"{name}.failed", models / f"{name.partition('.')[0]}.versions"
    if failed.exists():
        made = Row(name, missing=failed.read_text(encoding="utf-8"))
    else:
        text, crash = processes.result_of("benchmarks.foreign_models.chain", str(models), name, limit=LIMIT)
        made = Row(name, crash=crash) if crash else row.from_json(text)
    made.version = versions.read_text(encoding="utf-8") if versions.exists() else ""
    made.seconds = time.monotonic() - start
    return made


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", metavar="PYTHON", help="interpreter that has torch; the models are written")
    parser.add_argument("--folder", help="where models and environments are kept; default: nowhere")
    parser.add_argument("--only", default="", help="tools, or models as TOOL.MODE, with commas; default all")
    add_output_options(parser, "models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
