"""How time and memory of the commands grow with nodes, samples, the size of a weight, and the depth of If.

    python benchmarks/growth.py
    python benchmarks/growth.py --only validate,nodes --repeat 5 --json growth.json

Each command runs in a process of its own, after the same command has run there on the smallest model: what is imported
once is not counted. ``exponent`` is the slope of a line through the logarithms of size and processor seconds, of the
sizes that take 0.1 s or more; for memory, of those that take 8 MB or more. ``own s`` leaves out the processor seconds
in which ONNX Runtime opens sessions: they grow faster than the model, and qdqtool cannot change that. Where its
exponent, or that of memory, is above 1.15, a command would not be usable on models much larger than these: that is a
defect, and the exit code is 1. What quantizing costs next to plain inference, and next to other tools, is printed by
``peers.py --growth``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.comparison import tables
from benchmarks.scaling.courses import Course, Files, courses
from benchmarks.scaling.measured import Row

CHILD = Path(__file__).parent / "scaling" / "child.py"
LIMIT = 60.0
"""Seconds of a run after which no larger size is run."""

COLUMNS = ("command", "grows", "sizes", "CPU s", "exponent", "own s", "exponent", "MB", "exponent", "verdict")


def main() -> None:
    """Print the table; end with 1 where something grows faster than its size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="words with commas: all must stand in the name, `validate: nodes`")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each size; the smallest figures count")
    parser.add_argument(
        "--largest", type=int, default=sys.maxsize, help="of nodes and samples; larger ones are left out"
    )
    parser.add_argument("--json", type=Path, help="write all figures, for benchmarks/compare.py")
    arguments = parser.parse_args()
    words = [word for word in arguments.only.split(",") if word]
    chosen = [course for course in courses() if all(word in course.name for word in words)]
    if not chosen:
        raise SystemExit(f"--only {arguments.only}: there is none; there are: {', '.join(c.name for c in courses())}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for course in chosen:
            print(course.name, file=sys.stderr, flush=True)
            sizes = [size for size in course.sizes if size <= arguments.largest or course.axis.startswith("elements")]
            rows.append(measured(replace(course, sizes=sizes), Files(Path(folder)), arguments.repeat))
            print("  ".join(cells(rows[-1])), file=sys.stderr, flush=True)
    print(tables.text(COLUMNS, [cells(row) for row in rows]))
    if arguments.json:
        document = {"versions": tables.versions(), "growth_rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    sys.exit(any(row.defects for row in rows))


def measured(course: Course, files: Files, repeat: int) -> Row:
    """Run a course, size by size."""
    warm, sizes, taken, failed = course.words(files, course.sizes[0]), [], [], ""
    for size in course.sizes:
        words = course.words(files, size)
        runs = [run(warm, words) for _ in range(repeat)]
        failed = next((each for each in runs if isinstance(each, str)), "")
        if failed:
            break
        sizes.append(size)
        taken.append([each for each in runs if not isinstance(each, str)])
        if max(each["wall"] for each in taken[-1]) > LIMIT:
            break
    figures = {name: [[each[name] for each in runs] for runs in taken] for name in ("cpu", "wall", "peak", "opening")}
    return Row(course.axis, course.command, sizes, **figures, failed=failed)


def run(warm: Sequence[str], words: Sequence[str]) -> dict[str, float] | str:
    """The figures of one run, or why there are none."""
    line = [sys.executable, str(CHILD), json.dumps(warm), json.dumps(words)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["no message"])[-1]
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def cells(row: Row) -> list[str]:
    """The row of a table."""
    seconds = ", ".join(f"{min(runs):.2f}" for runs in row.cpu)
    own = ", ".join(f"{each:.2f}" for each in row.own)
    megabytes = ", ".join(f"{min(runs) / 1e6:.0f}" for runs in row.peak)
    exponents = {figure: row.exponent(figure) for figure in ("cpu", "own", "peak")}
    shown = {figure: "-" if found is None else f"{found:.2f}" for figure, found in exponents.items()}
    sizes = ", ".join(f"{size:,}" for size in row.sizes)
    return [
        row.command,
        row.axis,
        sizes,
        seconds,
        shown["cpu"],
        own,
        shown["own"],
        megabytes,
        shown["peak"],
        row.verdict,
    ]


if __name__ == "__main__":
    main()
