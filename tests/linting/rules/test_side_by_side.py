"""A rule judges every node: what it reports of models that stand side by side, it reports of each alone."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import onnx
import pytest
from onnx import compose
from support import corpus

from qdqtool.linting import rules
from qdqtool.linting.rules import Rule, RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

OF_THE_MODEL = {"QM607", "QM614", "QM901", "QT401"}
"""Rules that say one thing of the model as a whole."""
RULES = [rule for rule in rules.catalogue() if rule.code not in OF_THE_MODEL]
TARGETS = ("onnx", "ort-cpu", "tensorrt", "tensorrt-rtx")

Part = tuple[onnx.ModelProto, tuple[int, ...]]
"""A model and the compute capabilities that are asked for."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_what_stands_beside_a_node_changes_nothing(rule: Rule):
    """Its own examples, those without a finding first and last."""
    examples = [(example.model(), example.compute_capabilities) for example in (*rule.VALID, *rule.INVALID)]
    for models, capabilities in groups(examples):
        alone = [found for model in models for found in reported(rule, read(model), capabilities)]
        for order in (models, models[::-1]):
            assert sorted(reported(rule, read(side_by_side(order)), capabilities)) == sorted(alone)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_models_of_the_corpus_stand_side_by_side(rule: Rule):
    for together, parts, capabilities in read_corpus():
        alone = [found for part in parts for found in reported(rule, part, capabilities)]
        assert sorted(reported(rule, together, capabilities)) == sorted(alone)


@functools.cache
def read_corpus() -> list[tuple[RuleContext, list[RuleContext], tuple[int, ...]]]:
    cases = [[(case.model, case.compute_capabilities) for case in corpus.sample(group)] for group in corpus.GROUPS]
    return [
        (read(side_by_side(models)), [read(model) for model in models], capabilities)
        for parts in cases
        for models, capabilities in groups(parts)
    ]


def warm_up() -> None:
    """Read the corpus before mutants are tried (``tools/mutation``), so that not every one has to."""
    for rule in RULES:
        for together, parts, capabilities in read_corpus():
            for context in (together, *parts):
                reported(rule, context, capabilities)


def groups(parts: Iterable[Part]) -> Iterator[tuple[list[onnx.ModelProto], tuple[int, ...]]]:
    """Models that fit into one, in their order; names of each have a prefix of their own."""
    found: dict[tuple[object, tuple[int, ...]], list[onnx.ModelProto]] = defaultdict(list)
    for number, (model, capabilities) in enumerate(parts):
        if not model.functions and not model.metadata_props:
            opsets = tuple(sorted((each.domain, each.version) for each in model.opset_import))
            prefixed = compose.add_prefix(model, f"e{number}_")
            found[(model.ir_version, opsets), capabilities].append(prefixed)
    yield from ((models, capabilities) for (_, capabilities), models in found.items())


def side_by_side(models: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    joined = onnx.ModelProto()
    joined.CopyFrom(models[0])
    for model in models[1:]:
        for field in ("node", "input", "output", "initializer", "sparse_initializer", "value_info"):
            getattr(joined.graph, field).extend(getattr(model.graph, field))
    return joined


def read(model: onnx.ModelProto) -> RuleContext:
    return RuleContext(Model(model))


def reported(rule: Rule, context: RuleContext, capabilities: tuple[int, ...]) -> list[tuple[str, ...]]:
    return [
        (name, found.message, found.node or "", found.tensor or "", found.found or "", found.expected or "")
        for name in TARGETS
        for found in rule.run(context, targets.get(name).on(capabilities))
    ]
