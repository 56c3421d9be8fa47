"""The parts of a report as data: facts, tables and lines, which the terminal and the page lay out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from math import isnan
from typing import Literal, TypeVar, get_args

from qdqtool.errors import escape

State = Literal["passed", "failed", "unknown", "warning", "skipped"]
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table or a list of facts.

    Attributes:
        text: The text. Characters without a glyph become escapes.
        sort: The key of the cell when the column is sorted; None sorts last in both directions.
        state: The judgement that decides the color of the value; None for a plain value.
        chart: The order of the section with the chart of the tensor in the cell; None without a chart.
        short: A shorter text for terminals, where columns are narrow; None to use ``text``.
    """

    text: str
    sort: float | str | None = None
    state: State | None = None
    chart: int | None = None
    short: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", escape(self.text))
        if self.short is not None:
            object.__setattr__(self, "short", escape(self.short))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        numeric: Whether its cells are numbers.
        bars: Whether the chart above the table can show it.
        prose: Whether its cells are sentences, which need more width.
        short: Its heading on a terminal; None for the title in lower case.
        empty: The text of an empty cell; a column with only such cells is left out. None to always keep the column.
        spare: A narrow terminal first leaves out the column with the largest number; 0 to always keep the column.
    """

    title: str
    numeric: bool = False
    bars: bool = False
    prose: bool = False
    short: str | None = None
    empty: str | None = None
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first column names the row; each row has a cell for each column."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def has_chart(self) -> bool:
        """Whether the page draws a bar chart above the table."""
        return len(self.rows) > 1 and any(column.bars for column in self.columns)


Row = TypeVar("Row")
Columns = Mapping[Column, Callable[[Row], Cell]]
"""The columns of a table, each with the function that makes the cell of this column for a row."""


def tabulate(caption: str, columns: Columns[Row], rows: Iterable[Row]) -> Table:
    """Return the table of ``rows``; a column in which each cell is empty may be left out."""
    made = [tuple(cell(row) for cell in columns.values()) for row in rows]
    kept = [each.empty is None or any(row[at].text != each.empty for row in made) for at, each in enumerate(columns)]
    return Table(caption, tuple(compress(columns, kept)), tuple(tuple(compress(cells, kept)) for cells in made))


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values."""

    rows: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, one below the other."""

    heading: str
    lines: tuple[str, ...]


NodeState = Literal["quantized", "fallback", "float", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """One operator of a drawing.

    Attributes:
        name: Its label.
        op_type: Its operator.
        state: What its color shows: quantized as planned, not as planned, unquantized, or not quantizable.
        label: Its precision in words.
        detail: All known facts about it, in one line.
        inputs: For each input, the number of the node that makes it, and the format of the Q/DQ pair on the connection.
            The number is -1 for an input of the model; the format is empty without a pair.
    """

    name: str
    op_type: str
    state: NodeState
    label: str
    detail: str
    inputs: tuple[tuple[int, str], ...]

    def data(self) -> tuple[object, ...]:
        """Return the values for ``assets/graph.js``, in this order. Characters without a glyph become escapes."""
        kind = escape(self.op_type if self.state == "other" else f"{self.op_type}: {self.label}")
        return escape(self.name), kind, self.state, escape(self.detail), self.inputs


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph that is laid out in the browser.

    Attributes:
        caption: The description of the drawing.
        nodes: Its operators.
        start: The number of the node where the view of a large graph begins.
    """

    caption: str
    nodes: tuple[DrawnNode, ...]
    start: int

    @property
    def counts(self) -> dict[NodeState, int]:
        """Number of nodes by color, without colors that no node has."""
        states = [node.state for node in self.nodes]
        return {state: states.count(state) for state in get_args(NodeState) if state in states}

    @property
    def data(self) -> dict[str, object]:
        """The data for ``assets/graph.js``."""
        return {"nodes": [node.data() for node in self.nodes], "start": self.start}


@dataclass(frozen=True, slots=True)
class Charts:
    """Several charts; the reader chooses which one is shown.

    Attributes:
        caption: The description of the charts.
        kind: What each chart shows: the magnitudes and range of an activation, or the scales of a weight.
        charts: The name of each tensor, and its data for ``assets/ranges.js``.
    """

    caption: str
    kind: Literal["ranges", "scales"]
    charts: tuple[tuple[str, tuple[object, ...]], ...]

    @property
    def data(self) -> list[tuple[object, ...]]:
        """The data for ``assets/ranges.js``. Characters of names without a glyph become escapes."""
        return [(escape(name), *values) for name, values in self.charts]


@dataclass(frozen=True, slots=True)
class Series:
    """Values of a curve, one for each x.

    Attributes:
        name: The name of the series in the legend.
        values: The values; None for an unknown value.
        is_line: Whether a line joins the values; otherwise only points are drawn.
    """

    name: str
    values: tuple[float | None, ...]
    is_line: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of figures over shares from 0 to 1, drawn in the browser.

    Attributes:
        caption: The description of the curve.
        x_title: The title of the shares.
        y_title: The title of the figures.
        unit: The unit of the figures; may be empty.
        x: The shares, ascending.
        series: The figures.
        limit: A limit of the figures, drawn as a line; None without a limit.
        chosen: Index of the x that is marked; None if none is marked.
    """

    caption: str
    x_title: str
    y_title: str
    unit: str
    x: tuple[float, ...]
    series: tuple[Series, ...]
    limit: float | None = None
    chosen: int | None = None

    @property
    def data(self) -> dict[str, object]:
        """The data for ``assets/curve.js``. Characters without a glyph become escapes."""
        return {
            "titles": [escape(each) for each in (self.x_title, self.y_title, self.unit)],
            "x": self.x,
            "series": [(escape(each.name), each.values, each.is_line) for each in self.series],
            "limit": self.limit,
            "chosen": self.chosen,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """A command that a reader can run next, and the reason."""

    fact: str
    command: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in the order in which to take them, and a note that holds for all commands."""

    steps: tuple[Step, ...]
    note: str


Block = Table | Facts | Lines | Drawing | Charts | Curve | Steps

_UNKNOWN = Cell(UNKNOWN, None, "unknown", short="-")


def text(value: str | None, state: State | None = None) -> Cell:
    """Return a cell with a text; ``unknown`` for None."""
    return _UNKNOWN if value is None else Cell(value, value.casefold(), state)


def number(value: float | None, form: str = ",.6g", unit: str = "", *, short: str = "") -> Cell:
    """Return a cell with a number; None becomes ``unknown``, and on a page so does NaN.

    Args:
        value: The number.
        form: The format of the number.
        unit: The unit after the number; on a terminal the heading of the column has the unit.
        short: The format on a terminal; empty for the same format.
    """
    if value is None:
        return _UNKNOWN
    brief = f"{value:{short or form}}"
    if isnan(value):
        return replace(_UNKNOWN, short=brief)
    return Cell(f"{value:{form}}{f' {unit}' if unit else ''}", float(value), short=brief)


def decibels(value: float | None, *, exact: bool = False) -> Cell:
    """Return a cell with an SQNR in dB; exact outputs have no SQNR and are sorted as best."""
    return Cell("exact", float("1e9")) if exact else number(value, ".2f", "dB")


def share(value: float | None) -> Cell:
    """Return a cell with a share of 1, as a percentage."""
    return _UNKNOWN if value is None or isnan(value) else Cell(percentage(value), float(value))


def percentage(value: float) -> str:
    """Return a share of 1 in percent; a value other than 0 is never shown as 0."""
    if 0 < value < 0.0001:
        return "< 0.01%"
    return f"{100 * value:.2f}%"


def scoped(name: str, graph: str) -> str:
    """Return the label of a node or tensor with its scope."""
    return f"{graph}/{name}" if graph else name
