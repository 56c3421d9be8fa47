"""A rule judges every node: what it reports of examples that stand side by side, it reports of each alone."""

from collections import defaultdict
from collections.abc import Iterator

import onnx
import pytest
from onnx import compose

from qdqtool import rules, targets
from qdqtool.findings import Finding
from qdqtool.graph.model import Model
from qdqtool.rules import Rule, RuleContext

OF_THE_MODEL = {"QM614", "QM607", "QM901"}
"""Rules about the model as a whole."""


@pytest.mark.parametrize("rule", rules.catalogue(), ids=lambda rule: rule.code)
def test_what_stands_beside_a_node_changes_nothing(rule: Rule):
    if rule.code in OF_THE_MODEL:
        pytest.skip("it is about the model as a whole")
    for capabilities, group in groups(rule):
        alone = [found for model in group for found in reported(rule, model, capabilities)]
        for order in (group, group[::-1]):
            beside = reported(rule, side_by_side(order), capabilities)
            assert sorted(beside) == sorted(alone), [model.graph.name for model in order]


def groups(rule: Rule) -> Iterator[tuple[tuple[int, ...], list[onnx.ModelProto]]]:
    """The examples of a rule that fit into one model, those without a finding first; every name has its own prefix."""
    found: dict[tuple[tuple[int, ...], object], list[onnx.ModelProto]] = defaultdict(list)
    for number, example in enumerate((*rule.VALID, *rule.INVALID)):
        model = onnx.ModelProto()
        model.CopyFrom(example.model())
        if not model.functions and not model.metadata_props:
            opsets = tuple(sorted((each.domain, each.version) for each in model.opset_import))
            same = example.compute_capabilities, (model.ir_version, opsets)
            found[same].append(prefixed(model, f"e{number}_"))
    yield from ((capabilities, group) for (capabilities, _), group in found.items())


def prefixed(model: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
    named = compose.add_prefix(model, prefix)
    named.graph.name = prefix
    return named


def side_by_side(models: list[onnx.ModelProto]) -> onnx.ModelProto:
    joined = onnx.ModelProto()
    joined.CopyFrom(models[0])
    for model in models[1:]:
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            getattr(joined.graph, field).extend(getattr(model.graph, field))
    return joined


def reported(rule: Rule, model: onnx.ModelProto, capabilities: tuple[int, ...]) -> list[tuple[str, ...]]:
    context = RuleContext(Model(model))
    return [
        (name, *words(finding))
        for name in ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx")
        for finding in rule.run(context, targets.get(name).on(capabilities))
    ]


def words(finding: Finding) -> tuple[str, ...]:
    return (finding.message, finding.node or "", finding.tensor or "", finding.found or "", finding.expected or "")
