"""Accuracy against cost: the candidate models that the search of ``quantize`` measured, and the written model."""

from collections.abc import Iterator

from qdqtool.accuracy.search.goal_report import CurveState, SearchCurve
from qdqtool.errors import plural
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.reports.blocks import (
    Block,
    Cell,
    Column,
    Columns,
    Curve,
    Facts,
    Series,
    decibels,
    number,
    share,
    tabulate,
    text,
)
from qdqtool.reports.page.section import Section
from qdqtool.reports.saved.story import Story

_NONE = Cell("\N{EN DASH}")
_X = "Cost in float"


def blocks(story: Story) -> tuple[Block, ...]:
    """Return the curve of a search with its table; nothing if ``quantize`` made no search."""
    quantize = story.first(QuantizeReport)
    search = quantize.search if quantize is not None else None
    if quantize is None or search is None:
        return ()
    measured_on = quantize.accuracy.part if quantize.accuracy is not None else "calibration"
    facts = Facts(tuple(_facts(search, measured_on)))
    return (
        facts,
        *_curves(search, measured_on),
        tabulate("Candidate models, the cheapest first", _columns(search), search.states),
    )


def _facts(search: SearchCurve, measured_on: str) -> Iterator[tuple[str, Cell]]:
    limits = [f"every output keeps {search.min_sqnr_db:g} dB"] if search.min_sqnr_db is not None else []
    if search.max_metric_loss is not None:
        limits.append(f"{search.metric} loses at most {_loss(search.max_metric_loss, search)}")
    yield "Asked for", text(" and ".join(limits))
    for state in search.states:
        if state.chosen:
            yield "Written model", text(_describe_state(state, search))
    yield "Search", text(f"on {plural(search.samples, 'selection sample')}, so its figures are optimistic")
    yield "Measured", text(f"on {measured_on} samples, with a candidate model that was written")


def _describe_state(state: CurveState, search: SearchCurve) -> str:
    layers = plural(state.layers_in_float, "layer")
    if state.layers_in_fallback:
        layers += f" in float and {state.layers_in_fallback} in the secondary format"
    else:
        layers += " in float"
    kept = [f"{state.measured_sqnr_db:.2f} dB measured"] if state.measured_sqnr_db is not None else []
    if state.measured_metric_loss is not None:
        kept.append(f"{search.metric} loses {_loss(state.measured_metric_loss, search)}")
    return ", ".join((layers, f"{share(1 - state.quantized_share).text} of the cost", *kept))


def _loss(loss: float, search: SearchCurve) -> str:
    return f"{loss:.4g} {search.loss_unit}".rstrip()


def _curves(search: SearchCurve, measured_on: str) -> Iterator[Curve]:
    states = search.states
    names = (f"on the {search.samples} selection samples", f"measured on {measured_on} samples")
    chosen = next((number for number, state in enumerate(states) if state.chosen), None)
    costs = tuple(1 - state.quantized_share for state in states)
    found = (
        (
            ("SQNR of the worst output", "dB", search.min_sqnr_db),
            [(each.worst_sqnr_db, each.measured_sqnr_db) for each in states],
        ),
        (
            (f"Loss of {search.metric}", search.loss_unit, search.max_metric_loss),
            [(each.metric_loss, each.measured_metric_loss) for each in states],
        ),
    )
    for (title, unit, limit), values in found:
        if sum(value is not None for pair in values for value in pair) > 1:
            chose, measured = zip(*values, strict=True)
            series = (Series(names[0], chose, is_line=True), Series(names[1], measured))
            caption = f"{title} against the cost in float"
            yield Curve(caption, _X, title.partition(" of ")[0], unit, costs, series, limit, chosen)


def _columns(search: SearchCurve) -> Columns[CurveState]:
    unit, dash = search.loss_unit, _NONE.text
    return {
        Column("Candidate"): lambda state: text(_name(state)),
        Column("Layers in float", numeric=True): lambda state: number(state.layers_in_float, ","),
        Column("In the secondary format", numeric=True, empty="0"): lambda state: number(state.layers_in_fallback, ","),
        Column(_X, numeric=True): lambda state: share(1 - state.quantized_share),
        Column("SQNR, search", numeric=True): lambda state: _sqnr(state, state.worst_sqnr_db),
        Column("SQNR, measured", numeric=True): lambda state: _sqnr(state, state.measured_sqnr_db),
        Column("Loss, search", numeric=True, empty=dash): lambda state: _known(state.metric_loss, unit),
        Column("Loss, measured", numeric=True, empty=dash): lambda state: _known(state.measured_metric_loss, unit),
    }


def _name(state: CurveState) -> str:
    if state.chosen:
        return "written model"
    if not state.layers_in_float + state.layers_in_fallback:
        return "every layer quantized"
    return "measured" if state.measured_sqnr_db is not None else "search only"


def _sqnr(state: CurveState, value: float | None) -> Cell:
    if not state.finite and value is None:
        return Cell("NaN or infinite", float("-1e9"), "failed")
    return _NONE if value is None else decibels(value)


def _known(value: float | None, unit: str) -> Cell:
    return _NONE if value is None else number(value, ".4g", unit)


SECTION = Section(35, "Accuracy against cost", ("quantize --min-sqnr DB",), blocks)
