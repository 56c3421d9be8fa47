"""The rules against the real judges on models that each vary one thing.

A judge and we agree on a model when it refuses it and we have a finding with effect ``refused``, or neither. The daily
run takes a sample of each group for TensorRT for RTX, whose builder is slow; QDQTOOL_FULL_CORPUS=1 takes all.
"""

import os

import pytest
from support import corpus
from support.corpus import Case
from support.ort_verdict import ort_refuses
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

FULL = bool(os.environ.get("QDQTOOL_FULL_CORPUS"))

STRICTER_THAN_TENSORRT = {
    # the parser drops a Flatten that changes nothing; one that does is refused, and nobody can rely on the difference
    "codes by Flatten"
}
STRICTER_THAN_ORT: set[str] = set()
"""Models that the judge takes and we refuse, each with the reason. There are none that we miss."""


def we_refuse(case: Case, target: str) -> bool:
    context, judge = RuleContext(Model(case.model)), targets.get(target).on(case.compute_capabilities)
    return any(finding.effect == "refused" for rule in rules.catalogue() for finding in rule.run(context, judge))


def chosen(group: str) -> list[Case]:
    return list(corpus.GROUPS[group]()) if FULL else corpus.sample(group)


@pytest.mark.slow(reason="TensorRT parses and builds hundreds of models")
@pytest.mark.builder
@pytest.mark.parametrize("group", corpus.GROUPS)
def test_we_agree_with_tensorrt_for_rtx(group: str, oracle: TrtOracle):
    missed, stricter = {}, set()
    for case in chosen(group):
        verdict = oracle.judge(case.model, case.compute_capabilities)
        if verdict.accepted == we_refuse(case, "tensorrt-rtx"):
            if verdict.accepted:
                stricter.add(case.name)
            else:
                missed[case.name] = verdict.message

    assert not missed
    assert stricter <= STRICTER_THAN_TENSORRT


@pytest.mark.parametrize("group", corpus.GROUPS)
def test_we_agree_with_onnx_runtime(group: str):
    missed, stricter = {}, set()
    for case in corpus.GROUPS[group]():
        reason = ort_refuses(case.model)
        if (reason is None) == we_refuse(case, "ort-cpu"):
            if reason is None:
                stricter.add(case.name)
            else:
                missed[case.name] = reason

    assert not missed
    assert stricter <= STRICTER_THAN_ORT


@pytest.mark.slow(reason="builds the whole corpus")
def test_the_corpus_is_large_and_the_disagreements_are_few():
    everything = {case.name for group in corpus.GROUPS.values() for case in group()}
    sampled = sum(len(corpus.sample(group)) for group in corpus.GROUPS)

    assert sampled >= 400
    assert len(everything) == sum(1 for group in corpus.GROUPS.values() for _ in group()), "a name is used twice"
    assert everything >= STRICTER_THAN_TENSORRT | STRICTER_THAN_ORT
    assert max(len(STRICTER_THAN_TENSORRT), len(STRICTER_THAN_ORT)) <= len(everything) / 100
