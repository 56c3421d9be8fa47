"""The tables of ``docs/developers/refusals.md``: a line for each corpus, and one for each message."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.refused.row import Row

LONGEST = 110


def put(path: Path, rows: Sequence[Row]) -> None:
    """Put the tables between the comments of a page."""
    text = path.read_text(encoding="utf-8")
    for name, lines in (("corpora", corpora(rows)), ("messages", messages(rows))):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = "\n".join([f"{head}{begin}", "", *lines, "", f"{end}{rest.partition(end)[2]}"])
    path.write_text(text, encoding="utf-8")


def corpora(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table of corpora."""
    yield "| corpus | models | build | parser refuses | builder refuses | explained | node named | way out |"
    yield "|---|---|---|---|---|---|---|---|"
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.corpus, []).append(row)
    for name, group in (*by_name.items(), ("all", [row for each in by_name.values() for row in each])):
        stages = Counter(row.stage for row in group)
        bad = refused(group)
        shares = [sum(map(bool, each)) for each in zip(*((r.reason, r.has_node, r.has_hint) for r in bad), strict=True)]
        counts = [len(group) - stages["unread"], stages["built"], stages["parse"], stages["build"]]
        yield f"| {name} | {' | '.join(map(str, [*counts, *(shares or [0, 0, 0])]))} |"


def messages(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table of messages, the most frequent first."""
    yield "| stage | message | models | reason | node named | way out | has a fix |"
    yield "|---|---|---|---|---|---|---|"
    for group in by_message(rows):
        first = group[0]
        counts = (sum(row.has_node for row in group), sum(row.has_hint for row in group))
        share = " | ".join(_share(count, len(group)) for count in (*counts, sum(row.has_fix for row in group)))
        reason = _cell(first.reason) or "**not explained**"
        yield f"| {first.stage} | `{_cell(first.message)}` | {len(group)} | {reason} | {share} |"


def by_message(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the refused rows of each message, the most frequent message first."""

    def key(row: Row) -> tuple[str, str, bool]:
        return row.stage, row.message, bool(row.reason)

    ordered = sorted(refused(rows), key=key)
    groups = [list(group) for _, group in groupby(ordered, key)]
    return sorted(groups, key=len, reverse=True)


def refused(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that parser or builder refused."""
    return [row for row in rows if row.stage in {"parse", "build"}]


def _share(count: int, models: int) -> str:
    return "yes" if count == models else "no" if not count else f"{count} of {models}"


def _cell(text: str) -> str:
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return short.replace("|", "/").replace("`", "'").replace("\t", " ")
