"""Check the models that a settings file lists in its ``[[check]]`` tables. If one check fails, the others still run.

The keys of a table are the long names of the options of ``qdqtool check``, so an option is declared once for both.
"""

import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from qdqtool.accuracy.checking.check_blame import BlameRequest
from qdqtool.accuracy.checking.options import check_request
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.errors import QdqError, UsageError
from qdqtool.jobs import check as check_job
from qdqtool.jobs.check_models_report import ChecksReport, ModelCheck
from qdqtool.jobs.options import CheckCommand
from qdqtool.jobs.verdict import judge, word_of
from qdqtool.linting.settings import LIST_HINT, ListedModel, find_config, read_listed
from qdqtool.options import COMMAND_LINE, Values, declared
from qdqtool.samples.feeds import Progress


def find_settings() -> Path | None:
    """Return the settings file that ``validate`` reads in the working directory, relative to it; None for no file."""
    found = find_config(Path.cwd())
    return None if found is None else Path(os.path.relpath(found))


def read_checks(path: Path, given: Values | None = None) -> tuple[ListedModel, ...]:
    """Return the models that a settings file lists, with the options of the check of each.

    Args:
        path: The file.
        given: Values of options for all models, which take precedence.

    Raises:
        UsageError: The file cannot be read, or a table is wrong.
    """
    listed = read_listed(path, [*declared(CheckCommand)])
    return tuple(replace(each, values={**each.values, **(given or {})}) for each in listed)


def check_models(
    checks: Iterable[ListedModel], settings: Path, *, begin: Callable[[str], None] | None = None, **calls: Progress
) -> ChecksReport:
    """Check several models; a model whose check ends with an error counts as failed, and the others are still checked.

    Args:
        checks: The models.
        settings: The file that lists them.
        begin: Called with each model before its check.
        calls: ``progress`` and ``tick``, as for :func:`check_listed`.

    Raises:
        UsageError: There are no models.
    """
    models = []
    for each in checks:
        if begin is not None:
            begin(str(each.model))
        try:
            models.append(ModelCheck.of(check_listed(each, **calls), strict=bool(each.values.get("strict"))))
        except QdqError as error:
            reasons = judge([("", error)])
            models.append(
                ModelCheck(
                    model=str(each.model), verdict="failed", exit_code=error.exit_code, reasons=reasons, report=None
                )
            )
    if not models:
        raise UsageError(f"{settings} has no [[check]] table: no model would be checked", hint=LIST_HINT)
    return ChecksReport(
        settings=str(settings),
        verdict=word_of(itertools.chain.from_iterable(each.reasons for each in models)),
        exit_code=max(each.exit_code for each in models),
        models=tuple(models),
    )


def check_listed(check: ListedModel, progress: Progress | None = None, tick: Progress | None = None) -> CheckReport:
    """Check one model with the options that are listed for it.

    Args:
        check: The model and its options.
        progress: Called after each sample.
        tick: Called for each run while layers are ranked by noise.

    Raises:
        QdqError: The check cannot be made, as for :func:`~qdqtool.jobs.check.check_model`.
    """
    values = dict(check.values)
    baseline, blame = values.pop("baseline", None), BlameRequest(always=values.pop("blame", False), tick=tick)
    request, options = check_request(values, COMMAND_LINE)
    return check_job.check_model(
        check.model, baseline=baseline, data=request, options=options, progress=progress, blame=blame
    )
