"""A check runs again only for a target that differs in something that it read."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.rule_context import Memo
from qdqtool.models import targets
from qdqtool.models.targets import Target


def test_what_reads_no_target_runs_once():
    runs: list[str] = []

    def check(_target: Target) -> Iterator[str]:
        runs.append("run")
        yield "fault"

    memo: Memo[str] = Memo()
    found = [memo.recall(targets.get(name), check) for name in targets.names()]

    assert found == [("fault",)] * len(targets.names())
    assert len(runs) == 1


def test_what_reads_the_family_runs_for_each_family():
    memo: Memo[str] = Memo()
    found = {name: memo.recall(targets.get(name), lambda target: iter([target.family])) for name in targets.names()}

    assert found == {name: (targets.get(name).family,) for name in targets.names()}


def test_a_field_that_is_read_only_for_some_targets_counts_for_them():
    def check(target: Target) -> Iterator[str]:
        yield target.id if target.family == "tensorrt" else "other"

    memo: Memo[str] = Memo()
    found = [memo.recall(targets.get(name), check)[0] for name in ("onnx", "tensorrt", "ort-cpu", "tensorrt-rtx")]

    assert found == ["other", "tensorrt", "other", "tensorrt-rtx"]
