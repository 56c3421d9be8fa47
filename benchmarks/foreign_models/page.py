"""The page of `make foreign`, and the promises that a row may break."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.comparison import pages
from benchmarks.foreign_models.chain import NORMALIZE, UNCHANGED, UNSAFE
from benchmarks.foreign_models.row import Row
from benchmarks.foreign_models.tools import titled
from benchmarks.networks.tables import decibels, plain

EXACT = 60.0
"""dB that a way without unsafe fixes keeps: above it the order of float32 sums decides."""

REFUSED = "TensorRT for RTX refuses"
"""How the message of ``build`` begins where ``validate`` passed and TensorRT did not."""

PARSER = "QE701"
"""The finding that repeats what the parser of TensorRT says."""

LONGEST = 300
"""Characters of a message."""


def problems(row: Row) -> Iterator[str]:
    """Yield every promise that a row breaks."""
    if row.crash:
        yield f"{row.name}: {row.crash}"
    way, message = farthest(row)
    if not row.way and message.startswith(REFUSED) and not any(PARSER in finding for finding in row.findings):
        yield f"{row.name}, {way}: validate passes, and {message}"
    # normalize rewrites what has no exact form too, and states the difference.
    if not {UNSAFE, NORMALIZE} & set(row.way.split(", ")) and not _keeps_numbers(row):
        yield f"{row.name}: '{row.way}' changes numbers, {row.change_db:.1f} dB"


def _keeps_numbers(row: Row) -> bool:
    return row.change_db is None or row.change_db >= EXACT


def put(path: Path, rows: Sequence[Row]) -> None:
    """Write the tables between the comments of a page."""
    pages.put(path, texts(rows))


def texts(rows: Sequence[Row]) -> Mapping[str, str]:
    """Return the parts of the page by their names."""
    made = [row for row in rows if not row.missing]
    return {
        "versions": "\n".join(f"* {title}: {versions}" for title, versions in _versions(rows).items()),
        "summary": _summary(made),
        "models": _models(made),
        "fallbacks": _fallbacks(made),
        "refused": _refused([row for row in made if not row.way]),
        "missing": _missing([row for row in rows if row.missing]),
    }


def line(row: Row) -> str:
    """Return a row in one line, for the terminal."""
    return f"{row.name} ({row.seconds:.0f} s): " + (
        row.crash or row.missing or f"{decibels(row.before_db)} dB, {row.way or 'no engine'}, {_kernels(row)}"
    )


def _versions(rows: Sequence[Row]) -> dict[str, str]:
    return {titled(_tool(row)): row.version for row in rows if row.version}


def _tool(row: Row) -> str:
    return row.name.partition(".")[0]


def _mode(row: Row) -> str:
    return row.name.partition(".")[2]


def _summary(rows: Sequence[Row]) -> str:
    lines = ["| tool | models | engine | with quantized kernels | without unsafe fixes |", "|---|---:|---:|---:|---:|"]
    for tool in dict.fromkeys(_tool(row) for row in rows):
        own = [row for row in rows if _tool(row) == tool]
        built = [row for row in own if row.way]
        fast = [row for row in built if row.achieved]
        safe = [row for row in fast if UNSAFE not in row.way and _keeps_numbers(row)]
        lines.append(f"| {titled(tool)} | {len(own)} | {len(built)} | {len(fast)} | {len(safe)} |")
    return "\n".join(lines)


def _models(rows: Sequence[Row]) -> str:
    titles = ["tool", "mode", "layers", "before", "validate", "way", "after", "change", "kernels", "left"]
    lines = [f"| {' | '.join(titles)} |", "|---|---|---:|---:|---|---|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    found = [", ".join(codes) or "-" for codes in (row.findings, row.left)]
    way = row.way or "none"
    numbers = [decibels(value) for value in (row.after_db, row.change_db)]
    return [
        titled(_tool(row)),
        _mode(row),
        str(row.layers),
        decibels(row.before_db),
        plain(found[0]),
        way,
        *numbers,
        _kernels(row),
        plain(found[1]),
    ]


def _kernels(row: Row) -> str:
    return f"{row.achieved}/{row.planned}" if row.way else "no engine"


def _fallbacks(rows: Sequence[Row]) -> str:
    lines = ["| tool | mode | nodes | why |", "|---|---|---|---|"]
    for row in rows:
        for left in row.fallbacks:
            cells = (titled(_tool(row)), _mode(row), f"{left.count} {left.op_type}", plain(left.reason))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _refused(rows: Sequence[Row]) -> str:
    lines = ["| tool | mode | farthest way | message |", "|---|---|---|---|"]
    for row in rows:
        way, message = farthest(row)
        lines.append(f"| {titled(_tool(row))} | {_mode(row)} | {way} | {plain(message)} |")
    return "\n".join(lines)


def farthest(row: Row) -> tuple[str, str]:
    """Return the last way that changed something, and its message."""
    tried = [each for each in row.attempts if each.failed != UNCHANGED]
    return (tried[-1].way, tried[-1].failed) if tried else ("none", row.crash)


def _missing(rows: Sequence[Row]) -> str:
    lines = ["| tool | mode | message |", "|---|---|---|"]
    lines += [f"| {titled(_tool(row))} | {_mode(row) or 'all'} | {plain(shortened(row.missing))} |" for row in rows]
    return "\n".join(lines)


def shortened(message: str) -> str:
    """Return the first line of a message, not too long, without the colors of a terminal."""
    first = message.strip().splitlines()[0] if message.strip() else ""
    text = first.partition("\x1b")[0].strip()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
