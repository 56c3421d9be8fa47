"""Many architectures from float to engine: accuracy, kernels, and what stays float, on one page.

    python benchmarks/zoo.py --torch PYTHON --folder zoo --json zoo.json --markdown docs/developers/networks.md
    python benchmarks/zoo.py --folder zoo --only yolo,bert
    python benchmarks/zoo.py --render --json zoo.json --markdown docs/developers/networks.md

The networks have random weights from a seed, with BatchNormalization statistics of the data, and are written by both
exporters of PyTorch where they can. PYTHON has torch, torchvision, timm and transformers (the extra ``zoo``); without
``--torch`` the files in ``--folder`` serve. Nothing is downloaded. Each network then runs in a process of its own:
quantize (int8, fp8, int4 weights, int8 with the rest in fp16), validate, check on samples that were not calibrated on,
build with TensorRT for RTX, strip, and ONNX Runtime's static quantization of the same nodes. The exit code is 1 where a
row breaks a promise, which is printed.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.networks import page, processes, row, storage
from benchmarks.networks.options import add_output_options
from benchmarks.networks.row import Row

LIMIT = 900
"""Seconds that one network may take."""


def main() -> None:
    """Write the files that are missing, run every network, and show the page."""
    arguments = _arguments()
    known = Path(arguments.json) if arguments.json else None
    rows = storage.read(known, row.from_json) if known is not None and known.exists() else {}
    if not arguments.render:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(arguments.folder or scratch).resolve()
            if arguments.torch:
                _export(arguments.torch, folder, arguments.only)
            names = _names(folder, arguments.only)
            with ThreadPoolExecutor(arguments.jobs) as pool:
                for made in pool.map(lambda name: _run(folder, name), names):
                    rows[made.name] = made
                    print(page.line(made), file=sys.stderr, flush=True)
                    if known is not None:
                        storage.write(known, rows)
    ordered = sorted(rows.values(), key=lambda each: each.name)
    if arguments.markdown:
        page.put(Path(arguments.markdown), ordered)
    problems = [problem for each in ordered for problem in page.problems(each)]
    print("\n".join(problems) or f"{len(ordered)} networks, no promise broken")
    sys.exit(bool(problems))


def _export(python: str, folder: Path, only: str) -> None:
    processes.run_module(python, "benchmarks.networks.export", str(folder), *filter(None, only.split(",")))


def _names(folder: Path, only: str) -> list[str]:
    found = sorted({path.name.split(".")[0] for path in folder.glob("*.calib.npz")})
    unknown = [name for name in only.split(",") if name and name not in found]
    if unknown or not found:
        raise SystemExit(f"no files of {unknown[0] if unknown else 'any network'} in {folder}; --torch writes them")
    return [name for name in found if not only or name in only.split(",")]


def _run(folder: Path, name: str) -> Row:
    """Run one network in a process of its own, which may crash."""
    start = time.monotonic()
    text, crash = processes.result_of("benchmarks.networks.chain", str(folder), name, limit=LIMIT)
    made = Row(name, crash=crash) if crash else row.from_json(text)
    made.seconds = time.monotonic() - start
    return made


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--torch", metavar="PYTHON", help="interpreter that has the extra 'zoo'; it writes the networks"
    )
    parser.add_argument("--folder", help="where the networks are kept; default: nowhere")
    parser.add_argument("--only", default="", help="names, with commas; default all")
    add_output_options(parser, "networks")
    return parser.parse_args()


if __name__ == "__main__":
    main()
