"""Every command that prints tables, on a narrow terminal: headings stay whole, cells stay low, lines fit."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qdqtool.cli import command
from qdqtool.reports.terminal import MOST_LINES, FittedTable

ANSI = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (60, 80)
SHAPES = {
    "yunet_n_dynamic": ("--input-shapes", "input:1x3x160x160"),
    "silero_vad_16k_op15": ("--input-shapes", "input:1x576,state:2x1x128"),
}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The height of every cell of every table that was printed; fails where a heading does not fit its column."""
    heights: list[int] = []
    fit = FittedTable._fit

    def watched(self: FittedTable, console: Any, total: int) -> Any:
        fitted = fit(self, console, total)
        if fitted is None:  # the cells of a row stand below each other
            return None
        shown, widths = fitted
        for column, width in zip(shown, widths, strict=True):
            assert max(map(len, column.name.split()), default=0) <= width
            heights.extend(len(cell.wrap(console, width, overflow="fold")) for cell in column.cells)
        return shown, widths

    monkeypatch.setattr(FittedTable, "_fit", watched)
    return heights


def run(words: Sequence[str | Path], width: int, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints; every line fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        command.main(list(map(str, words)), prog_name="qdqtool", standalone_mode=False)
    text = ANSI.sub("", capsys.readouterr().out)
    assert max(map(len, text.splitlines()), default=0) <= width
    return text


@pytest.mark.parametrize(("words", "width"), [*((("rules",), width) for width in WIDTHS), (("doctor",), min(WIDTHS))])
def test_tables_about_the_tool(
    words: tuple[str, ...],
    width: int,
    tables: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)  # in a pipe, a rule is one line
    run(words, width, capsys)
    assert max(tables) <= MOST_LINES


@pytest.mark.real
def test_tables_about_a_model(real_model: Path, tmp_path: Path, tables: list[int], capsys: pytest.CaptureFixture[str]):
    shapes, quantized = SHAPES.get(real_model.stem, ()), tmp_path / "q.onnx"
    sampled = ("--random-calibration", "--samples", "1")
    run(("quantize", real_model, *sampled, *shapes, "-o", quantized), 60, capsys)
    for width in WIDTHS:
        for words in (
            ("inspect", real_model),
            ("inspect", quantized),
            ("inspect", "--tensors", quantized),
            ("validate", quantized, "--fail-on", "never"),
            ("validate", "--statistics", quantized, "--fail-on", "never"),
            ("check", quantized, "--baseline", real_model, "--samples", "1", *shapes),
        ):
            run(words, width, capsys)

    assert max(tables) <= MOST_LINES
