"""What TensorRT for RTX refuses, and whether our messages explain it: every model at hand, parsed and built.

    python benchmarks/refusals.py --json refusals.json --markdown docs/developers/refusals.md --networks FILE.onnx...
    python benchmarks/refusals.py --corpora rules --files FOLDER
    python benchmarks/refusals.py --render --json refusals.json --markdown docs/developers/refusals.md --record FILE

The corpora are ONNX's node tests (``nodes``), the same with integer inputs stored as constants (``stored``), the ONNX
files of installed packages (``packages``), the examples of our rules (``rules``), and the models of
``tests/support/corpus`` (``variations``, which needs ``tests`` on the path). ``--networks`` adds models as they are and
quantized in each mode, ``--files`` any others. Parser and builder run in child processes; a model that kills one or
passes the limit is refused. ``--record`` writes one message for each entry of the table of known messages. The exit
code is 1 where a message is not explained.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from benchmarks.refused import corpora, page, recorded
from benchmarks.refused.corpora import CORPORA, Source
from benchmarks.refused.judge import Judge
from benchmarks.refused.row import Row, judged

MODULE = "tensorrt_rtx"
LIMIT = 120
"""Seconds for one model."""


def main() -> None:
    """Judge the corpora and print the tables."""
    arguments = _arguments()
    if arguments.render:
        rows = [Row(**each) for each in json.loads(arguments.json.read_text(encoding="utf-8"))]
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = _judge_all(list(_sources(arguments, arguments.folder or Path(folder))), arguments.jobs)
        if arguments.json:
            arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")
    if arguments.markdown:
        page.put(arguments.markdown, rows)
    if arguments.record:
        recorded.write(arguments.record, rows)
    print("\n".join((*page.corpora(rows), "", *page.messages(rows))))
    sys.exit(any(not row.reason for row in page.refused(rows)))


def _sources(arguments: argparse.Namespace, folder: Path) -> Iterator[Source]:
    for name in filter(None, arguments.corpora.split(",")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        yield from CORPORA[name](folder / name)
    (folder / "networks").mkdir(parents=True, exist_ok=True)
    yield from corpora.networks(folder / "networks", arguments.networks)
    yield from corpora.files(arguments.files)


def _judge_all(sources: list[Source], jobs: int) -> list[Row]:
    idle: SimpleQueue[Judge] = SimpleQueue()
    judges = [Judge(MODULE, LIMIT) for _ in range(jobs)]
    for judge in judges:
        idle.put(judge)

    def run(source: Source) -> Row:
        judge = idle.get()
        try:
            return judged(source, judge)
        finally:
            idle.put(judge)

    rows: list[Row] = []
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(run, sources)
        while batch := list(islice(results, 200)):
            rows += batch
            print(f"{len(rows)} of {len(sources)}", file=sys.stderr, flush=True)
    for judge in judges:
        judge.stop()
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", default=",".join(CORPORA), help="with commas; default: %(default)s")
    parser.add_argument("--networks", type=Path, nargs="*", default=[], help="models, also quantized in each mode")
    parser.add_argument("--files", type=Path, nargs="*", default=[], help="other models, or folders with models")
    parser.add_argument("--folder", type=Path, help="where models are kept that are made; default: nowhere")
    parser.add_argument("--jobs", type=int, default=2, help="models at the same time")
    parser.add_argument("--render", action="store_true", help="run nothing, show what --json holds")
    parser.add_argument("--json", type=Path, help="file with results")
    parser.add_argument("--markdown", type=Path, help="file with comments between which the tables belong")
    parser.add_argument("--record", type=Path, help="file for one message of each entry of the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
