"""What one rule says of a small model that is written as ONNX text."""

import inspect
from collections.abc import Sequence

import onnx

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import Draft, Example, Fault, RuleContext, UnfitError
from qdqtool.models import targets
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model


def parsed(text: str, opset: int | None = None) -> onnx.ModelProto:
    """The model of a text: the header of the examples stands in front of a graph, or one with another opset."""
    header = "" if opset is None else f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>\n'
    return Example("", header + inspect.cleandoc(text)).model()


def without(model: onnx.ModelProto, output: str, *, inputs: Sequence[int] = (), outputs: bool = False):
    """The model with inputs of the node that makes a tensor left out, or all its outputs."""
    (node,) = [node for node in model.graph.node if output in node.output]
    for index in inputs:
        node.input[index] = ""
    if outputs:
        del node.output[:]
    return model


def faults(
    code: str, model: str | onnx.ModelProto, target: str = "tensorrt", capabilities: tuple[int, ...] = ()
) -> list[tuple[Finding, Fault]]:
    """What a rule finds for a target, and for GPUs of these compute capabilities."""
    proto = parsed(model) if isinstance(model, str) else model
    return list(rules.get(code).locate(RuleContext(Model(proto)), targets.get(target).on(capabilities)))


def findings(
    code: str, model: str | onnx.ModelProto, target: str = "tensorrt", capabilities: tuple[int, ...] = ()
) -> list[Finding]:
    """The same, without what the fixes need."""
    return [finding for finding, _ in faults(code, model, target, capabilities)]


def messages(
    code: str, model: str | onnx.ModelProto, target: str = "tensorrt", capabilities: tuple[int, ...] = ()
) -> list[str]:
    """The message of each finding."""
    return [finding.message for finding in findings(code, model, target, capabilities)]


def nodes(code: str, model: str | onnx.ModelProto, target: str = "tensorrt") -> list[str | None]:
    """The node of each finding."""
    return [finding.node for finding in findings(code, model, target)]


def fixed(code: str, model: str | onnx.ModelProto, target: str = "tensorrt") -> onnx.ModelProto:
    """The model after the first fix of its first finding.

    Raises:
        UnfitError: The fix does not serve here.
    """
    proto = parsed(model) if isinstance(model, str) else model
    context = RuleContext(Model(proto))
    (_, fault), *_ = rules.get(code).locate(context, targets.get(target))
    draft = Draft(context, Namer(context.view))
    fault.fixes[0].write(draft)
    changed = inlined(apply_edits(context.model, draft.edits))
    assert changed is not None
    return changed


def unfit(code: str, model: str | onnx.ModelProto, target: str = "tensorrt") -> str | None:
    """Why the first fix of the first finding does not serve; None where it does."""
    try:
        fixed(code, model, target)
    except UnfitError as reason:
        return str(reason)
    return None
