"""Make the page: sections as data, laid out by ``assets/page.html`` with style and script in the same file.

Everything that a report says reaches the page as text that Jinja2 escapes. The page forbids itself every request, and
runs only the script and the style whose digests stand in its Content-Security-Policy.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files

import jinja2
from markupsafe import Markup

from qdqtool.errors import escape
from qdqtool.reports.page.content import Block, Charts, Curve, Drawing, Facts, Lines, Steps, Table
from qdqtool.reports.page.key_figures import key_figures
from qdqtool.reports.page.pair import JudgedModel
from qdqtool.reports.page.parts import parts_of
from qdqtool.reports.page.verdict import QUESTIONS
from qdqtool.results import __version__

_ASSETS = files(__name__.rpartition(".")[0]) / "assets"
_STYLES = ("vendored/uplot/uPlot.min.css", "page.css")
_SCRIPTS = (
    "vendored/uplot/uPlot.iife.min.js",
    "vendored/dagre/dagre.min.js",
    "page.js",
    "graph.js",
    "curve.js",
    "ranges.js",
)
_KINDS = {
    Table: "table",
    Facts: "facts",
    Lines: "lines",
    Drawing: "drawing",
    Charts: "charts",
    Curve: "curve",
    Steps: "steps",
}


def render(models: Sequence[JudgedModel]) -> str:
    """Return the page: the same reports give the same text.

    Args:
        models: One model, or two that are compared.
    """
    style = "\n".join(map(_asset, _STYLES))
    script = "\n".join(map(_asset, _SCRIPTS))
    page = (
        _environment()
        .get_template("page.html")
        .render(
            title=escape(" against ".join(model.name for model in models)),
            models=models,
            questions=QUESTIONS,
            parts=parts_of(models),
            style=Markup(style),  # noqa: S704 -- a file of this package
            script=Markup(script),  # noqa: S704 -- a file of this package
            policy=_policy(style, script),
            version=__version__,
        )
    )
    return f"{page}\n"


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8").strip("\n")


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.DictLoader({"page.html": _asset("page.html")}),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests.update({kind: _is(block) for block, kind in _KINDS.items()})
    environment.filters["words"] = escape
    environment.globals["key_figures"] = key_figures
    return environment


def _is(kind: type[Block]) -> Callable[[object], bool]:
    return lambda block: isinstance(block, kind)
