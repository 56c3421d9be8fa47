"""The validate job: apply the rules of a policy to models, and return the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from qdqtool.errors import ArgumentError
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import ModelReport, ValidateReport, validate_report
from qdqtool.linting.workers import lint_files
from qdqtool.models import targets as _targets
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import parse_plugin_ops


def validate_model(  # noqa: PLR0913 -- each argument is a keyword of Python code
    path_or_model: str | Path | Model,
    targets: Sequence[str] = ("tensorrt",),
    *,
    compute_capabilities: Sequence[str] = (),
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    parser: bool | None = False,
    plugin_ops: Sequence[str] = (),
) -> ValidateReport:
    """Find every fault of one model for each target.

    The file is read without conversion. Weights stay on disk: only scales, zero points and some weights are read.
    The arguments are those of :func:`qdqtool.validate_model`.
    """
    linter = Linter(
        replace(_policy(targets, compute_capabilities, select, ignore), plugin_ops=parse_plugin_ops(plugin_ops))
    )
    if isinstance(path_or_model, Model):
        if parser:
            raise ArgumentError("parser is True, but the parser reads files only: save the model first")
        return validate_report([linter.model(path_or_model)])
    path = Path(path_or_model)
    return _judged([path], linter, parser, lambda: [linter.model(linter.load(path))])


def validate_files(paths: Iterable[Path], policy: Policy, *, jobs: int | None = 1) -> ValidateReport:
    """Return the findings of many files under one policy, in the order of ``paths``.

    Args:
        paths: The files; a file that cannot be read is reported and does not stop the others.
        policy: Targets and rules, and whether to run TensorRT's parser too.
        jobs: Number of processes for the files; None for the fastest number. With more than one process, a script that
            calls this function needs ``if __name__ == "__main__"``.
    """
    paths = [*paths]
    return _judged(paths, Linter(policy), policy.parser, lambda: lint_files(paths, policy, jobs))


def _judged(
    paths: list[Path], linter: Linter, parser: bool | None, lint: Callable[[], list[ModelReport]]
) -> ValidateReport:
    """Return the findings of ``lint``, with the answers of TensorRT's parser, which runs at the same time."""
    to_ask = dict.fromkeys(path for path in paths if parser is not False and linter.hears_parser(path))
    if not to_ask:
        return validate_report(lint())
    # Imported here, so that most runs do not load the modules for engines.
    from qdqtool.engines.build.parser_answer import asked_about

    with asked_about(to_ask, linter.load, demanded=parser is True) as answer:
        return validate_report(
            linter.with_parser(report, answer(path)) if path in to_ask else report
            for path, report in zip(paths, lint(), strict=True)
        )


def _policy(
    targets: Sequence[str],
    compute_capabilities: Sequence[str],
    select: Iterable[str] | None,
    ignore: Iterable[str] | None,
) -> Policy:
    if isinstance(targets, str) or not targets:
        raise ArgumentError(f"targets is {targets!r}; it must be a list of one or more of {_targets.legal()}")
    if isinstance(compute_capabilities, str):
        raise ArgumentError(f"compute_capabilities is {compute_capabilities!r}; it must be a list, such as ['8.6']")
    return Policy(
        targets=tuple(targets),
        compute_capabilities=_targets.capabilities(compute_capabilities),
        select=None if select is None else tuple(select),
        ignore=tuple(ignore or ()),
    )
