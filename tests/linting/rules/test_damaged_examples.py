"""No rule fails on a damaged model: its examples lose one thing after the other, and then are checked and repaired."""

from collections.abc import Callable, Iterator

import onnx
import pytest
from support.random_models import brute

from qdqtool.linting import rules
from qdqtool.linting.rules import Draft, Rule, RuleContext, UnfitError
from qdqtool.models import targets
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.model import Model

TARGETS = ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx", "tensorrt-10.5")

Damage = Callable[[onnx.ModelProto], None]


def inputs(model: onnx.ModelProto) -> Iterator[Damage]:
    """Leave out one input of a node."""
    for at, node in enumerate(brute.all_nodes(model)):
        for index in range(len(node.input)):

            def leave_out(copy: onnx.ModelProto, at: int = at, index: int = index) -> None:
                brute.all_nodes(copy)[at].input[index] = ""

            yield leave_out


def all_operands(model: onnx.ModelProto) -> Iterator[Damage]:
    """Leave out all inputs of a node, or all its outputs."""
    for at in range(len(brute.all_nodes(model))):
        for side in ("input", "output"):

            def leave_out(copy: onnx.ModelProto, at: int = at, side: str = side) -> None:
                brute.all_nodes(copy)[at].ClearField(side)

            yield leave_out


def constants(model: onnx.ModelProto) -> Iterator[Damage]:
    """Take out an initializer, so that its readers read what nothing defines."""
    for at in range(len(model.graph.initializer)):
        yield lambda copy, at=at: copy.graph.initializer.pop(at)


def types(model: onnx.ModelProto) -> Iterator[Damage]:
    """Take away the shape of an input or output, or its type altogether."""
    for side in ("input", "output"):
        for at in range(len(getattr(model.graph, side))):
            for word in ("tensor_type.shape", "type"):

                def take_away(copy: onnx.ModelProto, side: str = side, at: int = at, word: str = word) -> None:
                    info = getattr(copy.graph, side)[at]
                    info.ClearField("type") if word == "type" else info.type.tensor_type.ClearField("shape")

                yield take_away


@pytest.mark.parametrize("damages", [inputs, all_operands, constants, types])
@pytest.mark.parametrize("rule", rules.catalogue(), ids=lambda rule: rule.code)
def test_it_is_judged_and_repaired_without_an_error(rule: Rule, damages: Callable[[onnx.ModelProto], Iterator[Damage]]):
    for example in (*rule.VALID, *rule.INVALID):
        model = example.model()
        for damage in damages(model):
            damaged = brute.copied(model)
            damage(damaged)
            judge(rule, damaged, example.compute_capabilities)


def judge(rule: Rule, model: onnx.ModelProto, capabilities: tuple[int, ...]) -> None:
    context = RuleContext(Model(model))
    for name in TARGETS:
        for _, fault in rule.locate(context, targets.get(name).on(capabilities)):
            for fix in fault.fixes:
                try:
                    fix.write(Draft(context, Namer(context.view)))
                except UnfitError:
                    continue
