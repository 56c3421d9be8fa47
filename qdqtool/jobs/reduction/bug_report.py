"""Write what a bug report needs as Markdown: the model, the command, the error, the versions."""

from collections.abc import Iterator

import onnx

from qdqtool.jobs.reduction.report import ReduceReport
from qdqtool.models.graph.io.onnx_text import onnx_text

_MOST_BYTES = 4096
"""A larger model is not spelled out."""


def bug_report(report: ReduceReport, proto: onnx.ModelProto | None) -> str:
    """Return the report as Markdown.

    Args:
        report: What reduce found.
        proto: The reduced model with all its data; None where that is not in memory.
    """
    return "\n".join(_lines(report, proto)) + "\n"


def _lines(report: ReduceReport, proto: onnx.ModelProto | None) -> Iterator[str]:
    files = " and ".join(f"`{_plain(name)}`" for name in (report.output, report.external_data, report.baseline) if name)
    yield f"# {_plain(report.after.kind)} on {report.sizes_after.nodes} of {report.sizes_before.nodes} nodes"
    yield ""
    yield f"Model: {files}, reduced from `{_plain(report.model)}`."
    yield ""
    yield "## To reproduce"
    yield ""
    yield from _block(report.command, "sh")
    yield "## Error"
    yield ""
    yield from _block(str(report.after))
    if report.before.message != report.after.message:
        yield "On the whole model:"
        yield ""
        yield from _block(str(report.before))
    if not report.stable:
        yield "The failure is not stable: the same command did not fail alike twice on the same model."
        yield ""
    yield "## Model"
    yield ""
    yield "| | before | after |"
    yield "|---|---|---|"
    yield f"| nodes | {report.sizes_before.nodes} | {report.sizes_after.nodes} |"
    yield f"| bytes | {report.sizes_before.bytes} | {report.sizes_after.bytes} |"
    yield ""
    yield f"Operators: {', '.join(_counted(report))}. The command was run {report.runs} times to find this model."
    yield ""
    text = _spelled(proto)
    if text:
        yield from _block(text)
    yield "## Versions"
    yield ""
    yield from (f"- {name}: {_plain(version)}" for name, version in report.versions.items())


def _counted(report: ReduceReport) -> Iterator[str]:
    for operator, count in report.operators.items():
        yield _plain(operator) if count == 1 else f"{_plain(operator)} ({count})"


def _spelled(proto: onnx.ModelProto | None) -> str:
    if proto is None or proto.ByteSize() > _MOST_BYTES:
        return ""
    # The text is an extra. onnx's printer does not know every type.
    try:
        return onnx_text(proto)
    except (ValueError, TypeError, RuntimeError, AttributeError):
        return ""


def _block(text: str, language: str = "") -> Iterator[str]:
    # A line that a model or a library made must not end the block.
    yield f"~~~~{language}"
    yield "\n".join(_plain(line).replace("~~~~", "~ ~ ~ ~") for line in text.splitlines())
    yield "~~~~"
    yield ""


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
