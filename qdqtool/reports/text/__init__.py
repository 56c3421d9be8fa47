"""Print reports on a terminal, with a function ``(report, console)`` for each kind of report."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from qdqtool.registry import unit_names

RENDERERS: Mapping[str, str] = {
    **{name: f"{name}.render" for name in unit_names(sys.modules[__name__]) if name not in {"ranges", "repaired"}},
    "check_models": "check.render_models",
    "build_refused": "build.render_refused",
    "convert_ranges": "ranges.render_converted",
    "fixes": "repaired.render_fixes",
    "layer_map": "engine_map.render_layers",
    "matches": "insert.render_matches",
    "merge": "ranges.render_merged",
    "normalize": "repaired.render_normalized",
    "page": "manual.render_page",
    "rule": "rules.render_rule",
    "run": "bench.render_run",
    "schema": "manual.render_schemas",
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
