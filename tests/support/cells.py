"""Run pieces of Python one after the other in one namespace, as a notebook does, and take what each gives."""

import ast
import contextlib
import io
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Given:
    """What a piece printed, and its last expression as HTML; None where it has none."""

    text: str
    html: str | None


def run_cells(cells: list[str], namespace: dict[str, Any] | None = None) -> list[Given]:
    """Run the pieces in their order."""
    names = {} if namespace is None else namespace
    return [_run(source, names) for source in cells]


def _run(source: str, names: dict[str, Any]) -> Given:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return Given(printed.getvalue(), value._repr_html_() if hasattr(value, "_repr_html_") else None)
