"""The figures at the top of the page: what was quantized, what it cost, which layers are to blame, and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qdqtool.errors import human_bytes, plural
from qdqtool.reports.page.content import Cell, Facts, decibels, percentage, scoped, text
from qdqtool.reports.page.layers import join_layers
from qdqtool.reports.saved.stored_outputs import StoredOutput
from qdqtool.reports.saved.stored_parts import StoredAccuracyOutput
from qdqtool.reports.saved.stored_reports import StoredBuild, StoredCheck, StoredQuantize
from qdqtool.reports.saved.story import Story

_LAYERS = 3
"""How many of the noisiest layers are named."""


def key_figures(story: Story) -> Facts:
    """Return the figures that the reports have; what none of them says is left out."""
    return Facts((*_quantized(story), *_worst_output(story), *_noisiest(story), *_sizes(story)))


def _quantized(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize = story.first(StoredQuantize)
    if quantize is not None:
        pairs, floats = plural(len(quantize.quantized), "tensor"), plural(len(quantize.skipped), "quantizable node")
        yield "Quantized", text(f"{pairs} in {quantize.mode} for {quantize.target}, {floats} left in float")


def _worst_output(story: Story) -> Iterator[tuple[str, Cell]]:
    """Yield the worst output of each check on real data; without one, that of ``quantize``."""
    checks = [
        (source, found) for source, found in story.each(StoredCheck) if found.baseline and found.data.seed is None
    ]
    for source, check in checks:
        floats = [output for output in check.outputs if output.agreement is None]
        where = f"on {plural(check.data.samples, 'sample')} of {check.data.source}"
        name = "Worst output" if len(checks) == 1 else f"Worst output [{source}]"
        yield from _told(name, floats, where)
    quantize = story.first(StoredQuantize)
    if checks or quantize is None or quantize.accuracy is None or quantize.calibration is None:
        return
    if not quantize.calibration.random:
        accuracy = quantize.accuracy
        yield from _told("Worst output", accuracy.outputs, f"on {accuracy.samples} {accuracy.part} samples")


def _told(name: str, outputs: Iterable[StoredOutput | StoredAccuracyOutput], where: str) -> Iterator[tuple[str, Cell]]:
    known = [output for output in outputs if output.exact or output.sqnr_db is not None]
    if known:
        worst = min(known, key=lambda output: float("inf") if output.exact else output.sqnr_db or 0.0)
        figure = decibels(worst.sqnr_db, exact=bool(worst.exact))
        yield name, Cell(f"{worst.name}: {figure.text} {where}", figure.sort)


def _noisiest(story: Story) -> Iterator[tuple[str, Cell]]:
    noisy = [layer for layer in join_layers(story) if layer.noise_share and not layer.leader][:_LAYERS]
    if noisy:
        names = (f"{scoped(layer.node, layer.graph)} ({percentage(layer.noise_share or 0)})" for layer in noisy)
        yield "Noisiest layers", text(f"{', '.join(names)} of the noise at the output where it is largest")


def _sizes(story: Story) -> Iterator[tuple[str, Cell]]:
    quantize, build = story.first(StoredQuantize), story.first(StoredBuild)
    model = f"model {human_bytes(quantize.sizes.after)} of {human_bytes(quantize.sizes.before)}" if quantize else ""
    engine = f"engine {human_bytes(build.bytes)}" if build is not None and build.engine is not None else ""
    told = ", ".join(filter(None, (model, engine)))
    if told:
        yield "Sizes", text(told)
