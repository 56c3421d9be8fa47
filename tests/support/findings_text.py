"""Findings and the edits of their fixes as lines of text, for golden files."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

import numpy as np
import onnx

from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import Draft, Fix, Rule, RuleContext, UnfitError
from qdqtool.models import targets
from qdqtool.models.graph.edits.edit import AddInitializer, Edit
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.graph.model import Model

MOST_VALUES = 12
"""A constant of more elements is shown by its checksum."""


def described(model: onnx.ModelProto, rules: Iterable[Rule], capabilities: tuple[int, ...] = ()) -> Iterator[str]:
    """The findings of the rules on a model for all targets, each with what it means to which targets."""
    yield from reports(RuleContext(Model(model)), rules, capabilities)


def reports(context: RuleContext, rules: Iterable[Rule], capabilities: tuple[int, ...] = ()) -> Iterator[str]:
    """The same of a model that was read before."""
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for rule in rules:
        for name in targets.names():
            for finding, fault in rule.locate(context, targets.get(name).on(capabilities)):
                fixes = [line for fix in fault.fixes for line in _fix(context, fix)]
                impacts = found.setdefault((*_finding(finding), *fixes), {})
                impacts.setdefault(f"{finding.severity}, {finding.effect}", []).append(name)
    for (headline, *lines), impacts in found.items():
        yield headline
        yield from (f"  {impact}: {' '.join(dict.fromkeys(names))}" for impact, names in impacts.items())
        yield from (f"  {line}" for line in lines)


def _finding(finding: Finding) -> Iterator[str]:
    place = f" of {finding.op_type} '{finding.node}'" if finding.node else ""
    yield f"{finding.code}{place}{f' in {finding.graph}' if finding.graph else ''}: {finding.message}"
    extent = finding.extent
    degree = extent and f"{extent.kind or 'as found'}, {extent.count} times, by {extent.degree:.6g}"
    shown = {"tensor": finding.tensor, "found": finding.found, "expected": finding.expected, "extent": degree}
    if any(value is not None for value in shown.values()):
        yield "; ".join(f"{name} {value}" for name, value in shown.items() if value is not None)


def _fix(context: RuleContext, fix: Fix) -> Iterator[str]:
    yield f"{fix.offer.label} fix: {fix.description}"
    draft = Draft(context, Namer(context.view))
    try:
        fix.write(draft)
    except UnfitError as reason:
        yield f"  unfit: {reason}"
        return
    if draft.opset:
        yield f"  opset {draft.opset}"
    yield from (f"  {_edit(context, edit)}" for edit in draft.edits)


def _edit(context: RuleContext, edit: Edit) -> str:
    if isinstance(edit, AddInitializer):
        array = read_array(context.model, edit.tensor)
        return f"{_place(edit.scope)}{edit.tensor.name} = {array.dtype}{list(array.shape)} {_values(array)}"
    values = [getattr(edit, field.name) for field in fields(edit)][1:]
    return f"{_place(edit.scope)}{type(edit).__name__} {' '.join(str(value or repr(value)) for value in values)}"


def _place(scope: Sequence[str]) -> str:
    return f"{'/'.join(scope)}: " if scope else ""


def _values(array: np.ndarray) -> str:
    if array.size > MOST_VALUES:
        return f"with checksum {zlib.crc32(array.tobytes()):08x}"
    return " ".join(f"{value:.6g}" for value in array.astype(np.float64).reshape(-1))
