"""Make the page: sections as data, laid out by ``assets/page.html`` with style and script in the same file.

Jinja2 escapes all text from reports. The Content-Security-Policy of the page forbids every request, and allows only the
script and the style with its digests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import get_args

import jinja2
from markupsafe import Markup

from qdqtool.engines.build.report import EngineReport
from qdqtool.errors import escape, human_bytes, plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import Block, Cell, Facts, percentage, scoped, text
from qdqtool.reports.page.layers import join_layers
from qdqtool.reports.page.pair import JudgedModel, Pair, judge_all
from qdqtool.reports.page.section import Section
from qdqtool.reports.page.sections import every_section
from qdqtool.reports.page.verdict import QUESTIONS, accuracy_bars
from qdqtool.reports.saved.story import Story
from qdqtool.results import __version__


@dataclass(frozen=True, slots=True)
class Part:
    """Sections under one heading.

    Attributes:
        heading: The heading of the part; empty if the page has one part.
        prefix: The prefix of the ids of the sections.
        sections: The sections that have content.
        missing: Titles of sections without content, with the commands that would provide it.
    """

    heading: str
    prefix: str
    sections: tuple[tuple[Section, tuple[Block, ...]], ...]
    missing: tuple[tuple[str, str], ...]


def parts_of(models: Sequence[JudgedModel]) -> tuple[Part, ...]:
    """Return the parts of a page."""
    if len(models) == 1:
        return (_of_one("", "", models[0].story),)
    if not models[0].letter:
        return tuple(_of_one(model.name, f"m{at}-", model.story) for at, model in enumerate(models, 1))
    pair = Pair(*models)
    compared = ((section, section.comparison) for section in every_section() if section.comparison is not None)
    both = [(replace(section, title=two.title, needs=two.needs), two.blocks(pair)) for section, two in compared]
    each = (_of_one(model.label, f"{model.letter.lower()}-", model.story) for model in models)
    return _part("Comparison", "both-", both), *each


def _of_one(heading: str, prefix: str, story: Story) -> Part:
    return _part(heading, prefix, [(section, section.blocks(story)) for section in every_section()])


def _part(heading: str, prefix: str, made: Sequence[tuple[Section, tuple[Block, ...]]]) -> Part:
    return Part(
        heading,
        prefix,
        tuple((section, blocks) for section, blocks in made if blocks),
        tuple(_missing(section) for section, blocks in made if section.needs and not blocks),
    )


def _missing(section: Section) -> tuple[str, str]:
    return section.title, " or ".join(f"qdqtool {command}" for command in section.needs)


_LAYERS = 3
"""How many layers are named, at most, as the noisiest ones."""


def key_figures(story: Story) -> Facts:
    """Return the key figures that the reports have; unknown figures are left out."""
    return Facts((*_quantized(story), *_noisiest(story), *_sizes(story)))


def _quantized(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize = story.first(QuantizeReport)
    if quantize is not None:
        pairs, floats = (
            plural(len(quantize.quantized), "quantized tensor"),
            plural(len(quantize.skipped), "quantizable node"),
        )
        yield "Quantized", text(f"{pairs} in {quantize.mode} for {quantize.target}, {floats} unquantized")


def _noisiest(story: Story) -> Iterator[tuple[str, Cell]]:
    noisy = [layer for layer in join_layers(story) if layer.noise_share and not layer.leader][:_LAYERS]
    if noisy:
        names = (f"{scoped(layer.node, layer.graph)} ({percentage(layer.noise_share or 0)})" for layer in noisy)
        yield "Noisiest layers", text(f"{', '.join(names)} of the noise at the output where it is largest")


def _sizes(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize, build = story.first(QuantizeReport), story.first(EngineReport)
    model = f"model {human_bytes(quantize.sizes.after)} of {human_bytes(quantize.sizes.before)}" if quantize else ""
    engine = f"engine {human_bytes(build.bytes)}" if build is not None and build.engine is not None else ""
    sizes = ", ".join(filter(None, (model, engine)))
    if sizes:
        yield "Sizes", text(sizes)


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
_KINDS = {kind.__name__.lower(): kind for kind in get_args(Block)}
"""The classes of blocks, by the names that the template gives them."""


def render(models: Sequence[JudgedModel], picture: bytes = b"") -> str:
    """Return the page, with a PNG of preprocessed images if there is one. The same reports give the same text."""
    style = "\n".join(map(_asset, _STYLES))
    script = "\n".join(map(_asset, _SCRIPTS))
    is_list = len(models) > 1 and not models[0].letter
    found = judge_all(models) if is_list else models[0].verdict
    names = found.sentence.rpartition(": ")[0] if is_list else " against ".join(model.name for model in models)
    page = (
        _environment()
        .get_template("page.html")
        .render(
            title=escape(names),
            verdict=found,
            is_list=is_list,
            models=models,
            questions=QUESTIONS,
            parts=parts_of(models),
            style=Markup(style),  # noqa: S704 -- a file of this package
            script=Markup(script),  # noqa: S704 -- a file of this package
            policy=_policy(style, script),
            picture=base64.b64encode(picture).decode(),
            version=__version__,
        )
    )
    return f"{page}\n"


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; img-src data:; "
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
    environment.tests.update({kind: _is(block) for kind, block in _KINDS.items()})
    environment.filters["words"] = escape
    environment.globals |= {"key_figures": key_figures, "accuracy_bars": accuracy_bars}
    return environment


def _is(kind: type[Block]) -> Callable[[object], bool]:
    return lambda block: isinstance(block, kind)
