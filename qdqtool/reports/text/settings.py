"""The settings in force, for ``validate --show-settings``."""

import json
from typing import Any

from rich.console import Console

from qdqtool.linting.settings import Settings
from qdqtool.models.targets import capability_name
from qdqtool.reports.terminal import escape


def render(report: Settings, console: Console) -> None:
    """Print the file they come from, and each setting as a file would spell it."""
    policy = report.policy
    source = escape(str(report.source)) if report.source is not None else "no file; command line and defaults"
    console.print(f"# {source}")
    rows: dict[str, Any] = {
        "targets": policy.targets,
        "sm": [capability_name(number) for number in policy.compute_capabilities],
        "select": policy.select if policy.select is not None else ["ALL"],
        "extend-select": policy.extend_select,
        "ignore": policy.ignore,
        "fail-on": report.fail_on,
        "baseline": str(report.baseline) if report.baseline is not None else "",
    }
    # Not given means: where it is installed, and the model is not large. A file has no word for that.
    if policy.parser is not None:
        rows["parser"] = policy.parser
    for key, value in rows.items():
        console.print(f"{key} = {json.dumps(value)}")
    tables = (policy.severity, policy.per_model_ignores, policy.per_node_ignores)
    for name, table in zip(("severity", "per-model-ignores", "per-node-ignores"), tables, strict=True):
        if table:
            console.print(f"[{name}]")
        for key, value in table.items():
            console.print(f"{json.dumps(key)} = {json.dumps(value)}")
