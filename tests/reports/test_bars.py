"""Bars begin at 0 and are as long as their figures say; where a terminal cannot show them, the table has none."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from support.command import qdqtool_process
from support.scene_files import provide
from support.terminal import on_a_terminal

from qdqtool.reports.bars import LEAST_WIDTH, BarTable, shortened
from qdqtool.reports.terminal import PIPE_WIDTH

BLOCKS = " ▏▎▍▌▋▊▉█"
SHARES = {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.03, "e": 0.0}


def table(values: dict[str, float], **options: bool) -> BarTable:
    made = BarTable("layer", texts=("operator",), bars="share of it", figures=("noise",), **options)
    for name, value in values.items():
        made.add_row(name, value, ("Conv",), (f"{value:.2%}",))
    return made


def shown(
    made: BarTable, width: int = 80, *, is_terminal: bool = True, encoding: str = "utf-8", **environment: str
) -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    console = Console(
        file=file,
        width=width,
        force_terminal=is_terminal,
        soft_wrap=True,
        _environ={"TERM": "xterm-256color", **environment},
    )
    console.print(made)
    file.seek(0)
    return file.read().splitlines()


def plain(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]


def length(row: str) -> float:
    """Characters that the bar of a row takes, in eighths."""
    return sum(BLOCKS.index(char) / 8 for char in row if char in BLOCKS[1:])


def test_a_bar_is_as_long_as_its_share_of_the_whole():
    head, *rows = plain(shown(table({name: value / 2 for name, value in SHARES.items()}, of_whole=True)))
    begin, end = head.index("share of it"), head.index("100%") + len("100%")
    assert [row.split()[:2] + row.split()[-1:] for row in rows] == [
        [name, "Conv", f"{value / 2:.2%}"] for name, value in SHARES.items()
    ]
    assert all(row[:begin].strip().endswith("Conv") for row in rows)
    for row, value in zip(rows, SHARES.values(), strict=True):
        assert length(row) == length(row[begin:end]) == pytest.approx((end - begin) * value / 2, abs=1 / 8)


def test_without_a_whole_the_largest_value_has_the_longest_bar_wherever_it_stands():
    rows = plain(shown(table({"a": 3.0, "b": 12.0, "c": 0.0})))[1:]
    assert [round(length(row) / length(rows[1]), 2) for row in rows] == [0.25, 1, 0]


def test_ascii_has_other_bars_of_the_same_lengths():
    head, *rows = plain(shown(table(SHARES, of_whole=True), encoding="ascii"))
    width = head.index("100%") + len("100%") - head.index("share of it")
    assert [row.count("#") for row in rows] == [round(width * value) for value in SHARES.values()]
    assert "".join([head, *rows]).isascii()


@pytest.mark.parametrize(
    "options", [{"is_terminal": False}, {"width": LEAST_WIDTH - 1}, {"width": PIPE_WIDTH}], ids=["pipe", "narrow", "w"]
)
def test_elsewhere_the_same_table_has_no_bars(options: dict[str, int]):
    rows = plain(shown(table(SHARES, of_whole=True), **options))
    assert [row.split() for row in rows] == [
        ["layer", "operator", "noise"],
        *([name, "Conv", f"{value:.2%}"] for name, value in SHARES.items()),
    ]


@pytest.mark.parametrize("values", [{}, {"a": 0.0, "b": 0.0}, {"a": 0.5}])
def test_nothing_to_compare_has_no_bars(values: dict[str, float]):
    assert "share of it" not in "".join(shown(table(values)))
    assert len(shown(table(values))) == 1 + len(values)


def test_one_share_of_a_whole_says_something():
    (row,) = plain(shown(table({"a": 0.5}, of_whole=True)))[1:]
    assert length(row) > 5


def test_colours_are_those_of_a_terminal_that_has_and_wants_them():
    assert "\x1b[36" in "".join(shown(table(SHARES)))
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        text = "".join(shown(table(SHARES), **environment))
        assert "█" in text
        assert not re.search(r"\x1b\[[\d;]*3\d", text)


LONG = "/model/" + "encoder/" * 22 + "last/MatMul"
WIDE = "模型" * 40 + "/卷积"


@pytest.mark.parametrize("width", [LEAST_WIDTH, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_long_and_wide_names_lose_their_middle_and_nothing_moves(width: int, encoding: str):
    names = {LONG: 0.5, "short": 0.25} if encoding == "ascii" else {LONG: 0.5, WIDE: 0.3, "模": 0.2, "short": 0.25}
    head, *rows = plain(shown(table(names, of_whole=True), width, encoding=encoding))
    begin = head.index("share of it")

    assert len(rows) == len(names)
    assert {cell_len(row) for row in (head, *rows)} == {cell_len(head)} <= {*range(width + 1)}
    assert rows[0].startswith("/model/")
    assert rows[0].split("  ")[0].endswith("/MatMul")
    assert all(("#" if encoding == "ascii" else "█") in row for row in rows)
    for row in rows:
        cut = next(at for at in range(len(row)) if cell_len(row[:at]) == begin)
        assert row[cut] in "#█▊▋▌▍▎▏▉"
        assert row[:cut].rstrip().endswith("Conv")


def test_names_that_have_to_stay_whole_leave_no_room_for_bars():
    assert "share of it" not in "".join(shown(table({LONG: 0.5, "b": 0.5}, shortens=False)))
    folded = [line.split()[0] for line in plain(shown(table({LONG: 0.5, "b": 0.5}, shortens=False)))[1:-1]]
    assert "".join(folded) == LONG
    assert "share of it" in "".join(shown(table({LONG: 0.5, "b": 0.5}, shortens=False), 300))


@pytest.mark.parametrize(
    ("text", "width", "found"),
    [
        ("abcdefgh", 8, "abcdefgh"),
        ("abcdefgh", 7, "abc…fgh"),
        ("abcdefgh", 6, "abc…gh"),
        ("abcdefgh", 1, "…"),
        ("模型模型模型", 12, "模型模型模型"),
        ("模型模型模型", 9, "模型…模型"),
        ("模型模型模型", 8, "模型…型"),
        ("abcde\u0301f", 5, "ab…f"),
        ("", 3, ""),
    ],
)
def test_a_name_is_shortened_in_its_middle(text: str, width: int, found: str):
    assert shortened(text, width) == found


@given(
    st.text(st.characters(exclude_characters="….", exclude_categories=["Cs"]), max_size=60),
    st.integers(3, 40),
    st.sampled_from(["…", "..."]),
)
def test_a_shortened_name_fits_and_keeps_its_ends(text: str, width: int, ellipsis: str):
    found = shortened(text, width, ellipsis)
    assert cell_len(found) <= width
    if found != text:
        head, _, tail = found.partition(ellipsis)
        assert text.startswith(head)
        assert text.endswith(tail)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A check against a float model, as words of the command line."""
    folder = tmp_path_factory.mktemp("scene")
    model, baseline, data = (str(provide(name, folder)) for name in ("int8.onnx", "net.onnx", "samples.npz"))
    return ["check", model, "--baseline", baseline, "--data", data]


@pytest.mark.slow(reason="processes with a terminal")
def test_a_terminal_is_shown_bars_in_front_of_the_verdict_and_a_pipe_is_not(scene: list[str]):
    code, text = on_a_terminal(*scene)
    *_, bars, verdict = re.sub(r"\x1b\[[\d;]*m", "", text).strip().split("\n\n")
    piped = qdqtool_process(*scene)

    assert code == piped.code == 0
    rows, hint = bars.splitlines()[2:8], " ".join(bars.splitlines()[8:])
    assert all("▏" in row or "█" in row for row in rows)
    assert hint.startswith("`--blame` names the layers")
    assert verdict.startswith("PASSED")
    assert not set(BLOCKS[1:]) & set(piped.out)
    plain = piped.out.strip().split("\n\n")[-2].splitlines()[2:8]
    assert [row.split()[-2:] for row in rows] == [row.split()[-2:] for row in plain]


def test_a_terminal_without_blocks_or_colours_is_not_shown_them(scene: list[str]):
    code, text = on_a_terminal(*scene, NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert code == 0
    assert text.isascii()
    assert "####" in text
    assert not re.search(r"\x1b\[[\d;]*3\d", text)


def test_a_narrow_terminal_is_not_shown_bars(scene: list[str]):
    code, text = on_a_terminal(*scene, columns=50)
    assert code == 0
    assert "most noise against the baseline" in text
    assert not set(BLOCKS[1:]) & set(text)
