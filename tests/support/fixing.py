"""What a rule reports of a small model, and one of its fixes, without the jobs around them."""

import inspect

import numpy as np
import onnx
import onnx.parser
import pytest

from qdqtool.linting import rules
from qdqtool.linting.findings import Finding
from qdqtool.linting.rules import Draft, Fault, Fix, RuleContext, UnfitError
from qdqtool.models import targets
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from support.ort_verdict import ort_outputs

HEADER = '<ir_version: 11, opset_import: ["": 23]>\n'


def read(text: str | onnx.ModelProto) -> RuleContext:
    """The context of a model in ONNX's text format, at opset 23 unless it says another one."""
    if isinstance(text, onnx.ModelProto):
        return RuleContext(Model(text))
    text = inspect.cleandoc(text)
    return RuleContext(Model(onnx.parser.parse_model(text if text.startswith("<") else HEADER + text)))


def located(
    code: str, context: RuleContext, target: str = "tensorrt-rtx", capabilities: tuple[int, ...] = ()
) -> list[tuple[Finding, Fault]]:
    """What a rule reports of a model for a target."""
    return list(rules.get(code).locate(context, targets.get(target).on(capabilities)))


def messages(code: str, context: RuleContext, target: str = "tensorrt-rtx") -> list[str]:
    """The messages of these findings."""
    return [finding.message for finding, _ in located(code, context, target)]


def maker(context: RuleContext, output: str) -> QdqNode:
    """The Q or DQ whose first output has that name; for the empty name, the one without output."""
    (found,) = [each for each in context.qdq.nodes if (each.node.key or ("",))[0] == output]
    return found


def carried_out(context: RuleContext, fix: Fix) -> onnx.ModelProto:
    """The model after a fix."""
    draft = Draft(context, Namer(context.view))
    fix.write(draft)
    proto = inlined(apply_edits(context.model, draft.edits))
    assert proto is not None
    return proto


def refusal(context: RuleContext, fix: Fix) -> str:
    """Why a fix cannot be carried out."""
    with pytest.raises(UnfitError) as refused:
        fix.write(Draft(context, Namer(context.view)))
    return str(refused.value)


def descriptions(fixes: tuple[Fix, ...]) -> list[str]:
    """What the fixes say that they do."""
    return [fix.description for fix in fixes]


def node(model: onnx.ModelProto, output: str) -> onnx.NodeProto:
    """The node of the main graph that makes a tensor."""
    (found,) = [each for each in model.graph.node if output in each.output]
    return found


def attributes(model: onnx.ModelProto, output: str) -> dict[str, object]:
    """The attributes of that node."""
    return {each.name: onnx.helper.get_attribute_value(each) for each in node(model, output).attribute}


def constant(model: onnx.ModelProto, output: str, index: int) -> np.ndarray:
    """The initializer at an input of that node."""
    name = node(model, output).input[index]
    (found,) = [each for each in model.graph.initializer if each.name == name]
    return onnx.numpy_helper.to_array(found)


def assert_same_bits(before: RuleContext, after: onnx.ModelProto, **feeds: np.ndarray) -> None:
    """ONNX Runtime computes the same bits with both models."""
    first, second = ort_outputs(before.model.proto, feeds), ort_outputs(after, feeds)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert (array.dtype, array.tobytes()) == (second[name].dtype, second[name].tobytes()), name
