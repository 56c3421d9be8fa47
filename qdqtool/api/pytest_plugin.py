"""A pytest plugin: the fixture ``qdq`` asserts that models are correct and accurate. See ``docs/how-to/ci.md``.

pytest loads this module at every start, so it imports nothing of qdqtool until a test requests the fixture.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qdqtool.accuracy.checking.report import CheckReport
    from qdqtool.linting.report import ValidateReport
    from qdqtool.models.diff.report import DiffReport

Source = str | Path


class QdqAssertions:
    """The assertions of the ``qdq`` fixture."""

    def validate(
        self,
        model: Source,
        *,
        target: str | Iterable[str] | None = None,
        fail_on: str | None = None,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] | None = None,
    ) -> "ValidateReport":
        """Assert that the linter finds no fault in a model. Omitted arguments come from the project's settings.

        Args:
            model: The file.
            target: One target or several.
            fail_on: ``error``, or ``warning`` for both.
            select: Prefixes of rule codes to apply.
            ignore: Prefixes of rule codes to leave out.

        Returns:
            The report, for further assertions.

        Raises:
            UsageError: A target, a rule or the settings are wrong.
            ModelError: The model cannot be read.
        """
        __tracebackhide__ = True
        report, text, failed = _validate(
            Path(model),
            targets=None if target is None else [target] if isinstance(target, str) else [*target],
            select=None if select is None else [*select],
            ignore=None if ignore is None else [*ignore],
            fail_on=fail_on,
        )
        if failed:
            pytest.fail(text, pytrace=False)
        return report

    def check(
        self,
        model: Source,
        *,
        baseline: Source | None = None,
        data: Any = None,
        strict: bool | None = None,
        **keywords: Any,
    ) -> "CheckReport":
        """Assert that a model passes ``qdqtool check``. Omitted options come from its ``[[check]]`` in the settings.

        Args:
            model: The file.
            baseline: The float model.
            data: The samples.
            strict: Whether a warning fails too.
            keywords: Options of ``qdqtool check``, with ``_`` for ``-``, such as ``min_sqnr``.

        Returns:
            The report, for further assertions.

        Raises:
            UsageError: The settings or an option are wrong, or the data does not fit the model.
            ModelError: A model cannot be read.
            CapabilityError: ONNX Runtime is not installed.
        """
        __tracebackhide__ = True
        from qdqtool.reports.text import check

        given = {"baseline": None if baseline is None else Path(baseline), "strict": strict}
        report, failed = _check(
            Path(model), data, keywords, {key: each for key, each in given.items() if each is not None}
        )
        if failed:
            pytest.fail(_text(check.render, report), pytrace=False)
        return report

    def preserved(self, before: Source, after: Source) -> "DiffReport":
        """Assert that a model still has every Q/DQ pair of another model, with the same constants.

        Args:
            before: The file with the pairs.
            after: The file in which these pairs must be unchanged.

        Returns:
            The report, for further assertions.

        Raises:
            ModelError: A model cannot be read.
        """
        __tracebackhide__ = True
        from qdqtool.jobs.diff import diff_models
        from qdqtool.reports.text import diff

        report = diff_models(before, after)
        if not report.preserved:
            pytest.fail(_text(diff.render, report), pytrace=False)
        return report


@pytest.fixture(scope="session")
def qdq() -> QdqAssertions:
    """Assertions about ONNX models with Q/DQ nodes: ``qdq.validate(path)``, ``qdq.check(path)`` and others."""
    return QdqAssertions()


def _validate(model: Path, *, fail_on: str | None, **given: list[str] | None) -> "tuple[ValidateReport, str, bool]":
    import msgspec

    from qdqtool.errors import ArgumentError, ModelError
    from qdqtool.jobs.validate import validate_files
    from qdqtool.linting.baseline import read_baseline, without_known
    from qdqtool.linting.settings import Config, settle
    from qdqtool.reports.text import findings

    try:
        config = msgspec.convert({"fail-on": fail_on, **given}, Config)
    except msgspec.ValidationError:
        raise ArgumentError(f"fail_on is {fail_on!r}; it must be error, warning or never") from None
    settings = settle(config, isolated=False)
    source = str(settings.source) if settings.source is not None else None
    report = replace(validate_files([model], settings.policy), settings=source)
    if report.unreadable:
        raise ModelError(report.unreadable[0].error or "")
    if settings.baseline is not None:
        report = without_known(report, read_baseline(settings.baseline), settings.baseline.parent).report
    failed = settings.fail_on != "never" and report.reaches(settings.fail_on)
    return report, _text(findings.render, report), failed


def _check(model: Path, data: Any, keywords: dict[str, Any], given: dict[str, Any]) -> "tuple[CheckReport, bool]":
    from qdqtool.api.checked import values_of
    from qdqtool.jobs.check_models import check_listed, find_settings, read_checks
    from qdqtool.linting.settings import ListedModel
    from qdqtool.results import exit_code

    settings = find_settings()
    listed = read_checks(settings) if settings is not None else ()
    values = next((each.values for each in listed if each.model.resolve() == model.resolve()), {})
    values = {**values, **values_of(keywords, "check", "qdq.check", data=data), **given}
    report = check_listed(ListedModel(model=model, values=values))
    return report, exit_code(report.verdict, strict=values.get("strict", False)) != 0


def _text(render: Callable[..., None], report: object) -> str:
    import io

    from qdqtool.reports.terminal import make_console

    buffer = io.StringIO()
    render(report, make_console(buffer))
    return buffer.getvalue()
