"""Write a bug report as Markdown: the model, the command, the error, the versions."""

from collections.abc import Iterator

import onnx

from qdqtool.jobs.reduction.report import ReduceReport
from qdqtool.models.graph.io.onnx_text import onnx_text

_MOST_BYTES = 4096
"""The report includes the text of models up to this size."""


def bug_report(report: ReduceReport, proto: onnx.ModelProto | None) -> str:
    """Return the report as Markdown.

    Args:
        report: The result of ``reduce``.
        proto: The reduced model with all its data; None if the data is not in memory.
    """
    return "\n\n".join(_paragraphs(report, proto)) + "\n"


def _paragraphs(report: ReduceReport, proto: onnx.ModelProto | None) -> Iterator[str]:
    files = " and ".join(f"`{_plain(name)}`" for name in (report.output, report.external_data, report.baseline) if name)
    before, after = report.sizes_before, report.sizes_after
    yield f"# {_plain(report.after.kind)} on {after.nodes} of {before.nodes} nodes"
    yield f"Model: {files}, reduced from `{_plain(report.model)}`."
    yield "## To reproduce"
    yield _block(report.command, "sh")
    yield "## Error"
    yield _block(str(report.after))
    if report.before.message != report.after.message:
        yield "On the whole model:"
        yield _block(str(report.before))
    if not report.stable:
        yield "The failure is not stable: two runs of the same command on the same model had different results."
    yield "## Model"
    counts = (f"| nodes | {before.nodes} | {after.nodes} |", f"| bytes | {before.bytes} | {after.bytes} |")
    yield "\n".join(("| | before | after |", "|---|---|---|", *counts))
    operators = (name if count == 1 else f"{name} ({count})" for name, count in report.operators.items())
    yield f"Operators: {_plain(', '.join(operators))}. The command was run {report.runs} times to find this model."
    text = _spelled(proto)
    if text:
        yield _block(text)
    yield "## Versions"
    yield "\n".join(f"- {name}: {_plain(version)}" for name, version in report.versions.items())


def _spelled(proto: onnx.ModelProto | None) -> str:
    if proto is None or proto.ByteSize() > _MOST_BYTES:
        return ""
    # The text is optional: onnx's printer does not support every type.
    try:
        return onnx_text(proto)
    except (ValueError, TypeError, RuntimeError, AttributeError):
        return ""


def _block(text: str, language: str = "") -> str:
    # A line of text from a model or library must not end the block.
    lines = (_plain(line).replace("~~~~", "~ ~ ~ ~") for line in text.splitlines())
    return "\n".join((f"~~~~{language}", "\n".join(lines), "~~~~"))


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
