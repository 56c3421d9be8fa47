"""Reports for a terminal: a function ``(report, console)`` for each kind of report."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

RENDERERS: Mapping[str, str] = {
    "bench": "bench.render",
    "build": "build.render",
    "build_refused": "build.render_refused",
    "calibrate": "calibrate.render",
    "check": "check.render",
    "convert": "convert.render",
    "convert_ranges": "ranges.render_converted",
    "diff": "diff.render",
    "doctor": "doctor.render",
    "engine_map": "engine_map.render",
    "findings": "findings.render",
    "fixes": "repaired.render_fixes",
    "insert": "insert.render",
    "inspect": "inspect.render",
    "manual": "manual.render",
    "matches": "insert.render_matches",
    "merge": "ranges.render_merged",
    "normalize": "repaired.render_normalized",
    "page": "manual.render_page",
    "quantize": "quantize.render",
    "reduce": "reduce.render",
    "report": "report.render",
    "rule": "rules.render_rule",
    "rules": "rules.render",
    "run": "bench.render_run",
    "schema": "manual.render_schemas",
    "sensitivity": "sensitivity.render",
    "settings": "findings.render_settings",
    "statistics": "findings.render_statistics",
    "strip": "repaired.render_stripped",
    "verify_engine": "build.render_verified",
}
"""Module and function of each kind of report. A module is imported when its report is printed."""


def renderer(kind: str) -> Callable[..., None]:
    """Return the function that prints a kind of report."""
    module, _, function = RENDERERS[kind].partition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    return found
