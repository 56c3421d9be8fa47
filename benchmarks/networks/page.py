"""The page of all networks, and the promises that a row may break."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.comparison import pages
from benchmarks.networks.row import Left, Mode, Row
from benchmarks.networks.tables import decibels, plain

SLACK = 0.5
"""dB that our int8 may be below ONNX Runtime's on the same nodes, and one exporter below another."""

COLLAPSED = 10.0
"""dB below which outputs have little to do with the float model's. Where another quantizer gets no further either, the
weights are to blame: those of no training, in deep networks whose outputs hardly depend on the input."""

EXACT = 60.0
"""Above so many dB the noise of float32 in another order decides, and figures are not compared."""


def problems(row: Row) -> Iterator[str]:
    """Yield every promise that a row breaks."""
    if row.crash or not row.exporter:
        yield f"{row.name}: {row.crash or 'no exporter writes it'}"
    for name, mode in row.modes.items():
        yield from (f"{row.name}, {name}: {problem}" for problem in _of_mode(mode, row))
    for exporter, other in row.others.items():
        if other.failed:
            yield f"{row.name}, {exporter}: {other.failed}"
    yield from _against_ort(row)


def _of_mode(mode: Mode, row: Row) -> Iterator[str]:
    if mode.failed:
        yield mode.failed
    if mode.unexplained:
        yield f"{mode.unexplained} nodes stay float without a reason"
    if mode.findings and not (mode.refusal and row.float_refusal):
        yield f"validate finds {', '.join(mode.findings)}"
    if mode.check and not is_collapsed(row):
        yield f"check fails: {mode.check}"
    if mode.refusal and not row.float_refusal:
        yield f"TensorRT builds the float model and not this: {mode.refusal}"
    if sum(each.count for each in mode.fallbacks if each.reason) < mode.planned - mode.achieved:
        yield f"{mode.achieved} of {mode.planned} planned nodes run so, without a reason"


def is_collapsed(row: Row) -> bool:
    """Return whether neither quantizer keeps the outputs of a network in int8."""
    ours = row.modes.get("int8")
    found = [each for each in (ours.sqnr_db if ours is not None else None, row.ort.sqnr_db) if each is not None]
    return len(found) == 2 and max(found) < COLLAPSED


def _against_ort(row: Row) -> Iterator[str]:
    if is_behind(row) and not _why_behind(row) and not is_collapsed(row):
        found = f"int8 has {decibels(row.modes['int8'].sqnr_db)} dB, ONNX Runtime {decibels(row.ort.sqnr_db)}"
        yield f"{row.name}: {found} on the same nodes"


def is_behind(row: Row) -> bool:
    """Return whether ONNX Runtime's int8 keeps more than ours, by more than :data:`SLACK`."""
    ours = row.modes.get("int8")
    if ours is None or ours.sqnr_db is None or row.ort.sqnr_db is None:
        return False
    return ours.sqnr_db < min(row.ort.sqnr_db, EXACT) - SLACK


def _why_behind(row: Row) -> str:
    """Return why ONNX Runtime's int8 keeps more than ours; empty where that is not known."""
    ours = row.modes["int8"].sqnr_db
    assert ours is not None
    assert row.ort.sqnr_db is not None
    lead, error = row.ort.sqnr_db - ours, row.ort.error_db
    if row.name in EXPLAINED:
        return EXPLAINED[row.name]
    if error is not None and lead <= ERRORS * error:
        return f"by chance: {lead:.1f} dB, with a standard error of {error:.1f} dB on these samples"
    return "it quantizes fewer nodes" if row.ort.nodes < row.quantized else ""


ERRORS = 2.0
"""Standard errors within which one quantizer is not better than another."""

EXPLAINED: Mapping[str, str] = {
    "experts_einsum": "it leaves the Einsum in float, which ours quantizes",
    "dla34": "a few samples have most of the noise, and our ranges clip their outliers; the median of 96 other samples "
    "keeps 18.7 dB, and ONNX Runtime's 15.9",
}
"""Why ONNX Runtime is ahead, by network."""


def put(path: Path, rows: Sequence[Row]) -> None:
    """Write the tables between the comments of a page."""
    tables = {"networks": _networks(rows), "left": _left(rows), "exporters": _exporters(rows)}
    behind = [row for row in rows if is_behind(row)]
    explained = [f"* {row.name}: {_why_behind(row) or 'not known'}" for row in behind if not is_collapsed(row)]
    collapsed = ", ".join(row.name for row in rows if is_collapsed(row)) or "none"
    texts = {"explained": "\n".join(explained) or "Nowhere.", "collapsed": f"They are: {collapsed}."}
    pages.put(path, {**tables, **texts})


def line(row: Row) -> str:
    """Return a row in one line, for the terminal."""
    cells = [f"{name} {decibels(mode.sqnr_db)} {_kernels(mode)}" for name, mode in row.modes.items()]
    return f"{row.name} ({row.seconds:.0f} s): " + (
        row.crash or "; ".join([*cells, f"ORT {decibels(row.ort.sqnr_db)}"])
    )


def _networks(rows: Sequence[Row]) -> str:
    modes = ("int8", "fp8", "int4", "int8, fp16 rest")
    titles = ["network", "layers", *(f"{mode} | kernels" for mode in modes[:1]), "ONNX Runtime"]
    titles += [f"{mode} | kernels" for mode in modes[1:]]
    lines = [f"| {' | '.join(titles)} |", f"|---{'|---:' * (' | '.join(titles).count('|'))}|"]
    for row in rows:
        first, *others = (_cell(row.modes.get(mode)) for mode in modes)
        lines.append(f"| {row.name} | {row.nodes} | {first} | {_ort(row)} | {' | '.join(others)} |")
    return "\n".join(lines)


def _cell(mode: Mode | None) -> str:
    if mode is None or mode.failed:
        return "fails | -"
    if mode.nothing:
        return "- | none"
    return f"{decibels(mode.sqnr_db)} | {_kernels(mode)}"


def _kernels(mode: Mode) -> str:
    return "no engine" if mode.refusal else f"{mode.achieved}/{mode.planned}"


def _ort(row: Row) -> str:
    if row.ort.failed:
        return "-"
    fewer = f" ({row.ort.nodes} of {row.quantized})" if row.ort.nodes < row.quantized else ""
    return f"{decibels(row.ort.sqnr_db)}{fewer}"


def _left(rows: Sequence[Row]) -> str:
    lines = ["| network | mode | nodes | why |", "|---|---|---|---|"]
    for row in rows:
        if row.float_refusal:
            lines.append(f"| {row.name} | float | all | {plain(row.float_refusal)} |")
        for name, mode in row.modes.items():
            if mode.refusal:
                lines.append(f"| {row.name} | {name} | all | {plain(mode.refusal)} |")
            for title, found in (("", mode.left), ("run in float: ", mode.fallbacks), ("slower: ", mode.advice)):
                lines += [f"| {row.name} | {name} | {_counted(each)} | {title}{plain(each.reason)} |" for each in found]
    return "\n".join(lines)


def _exporters(rows: Sequence[Row]) -> str:
    lines = ["| network | exporter | pairs | weights | equalised | dB |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        ours = row.modes.get("int8")
        if ours is None or not row.others:
            continue
        lines.append(
            f"| {row.name} | {row.exporter} | {ours.pairs} | {ours.weights} | {ours.equalized} "
            f"| {decibels(ours.sqnr_db)} |"
        )
        lines += [
            f"| | {exporter} | {other.pairs} | {other.weights} | {other.equalized} | {decibels(other.sqnr_db)} |"
            for exporter, other in row.others.items()
        ]
    return "\n".join(lines)


def _counted(left: Left) -> str:
    return f"{left.count} {left.op_type}"
