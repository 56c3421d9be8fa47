"""benchmarks/compare.py: only what differs by more than the noise of both files counts."""

import json
import sys

import pytest

from benchmarks import compare
from benchmarks.comparison.costs import Cost, run
from benchmarks.scaling.measured import Row, fitted


def peers(**walls: list[float]) -> dict[str, object]:
    """A file of peers.py with one row a keyword; only seconds differ."""
    entries = []
    for model, runs in walls.items():
        repeated = {"wall": runs, "cpu": [1.0, 1.01], "peak": [100, 101]}
        cost = {"wall": min(runs), "cpu": 1.0, "peak": 100, "runs": len(runs), "repeated": repeated}
        entries.append(
            {"model": model, "tool": "qdqtool", "group": "int8", "method": "max", "samples": 8, "cost": cost}
        )
    return {"results": entries, "growth": []}


def found(older, newer) -> tuple[list[str], list[str]]:
    """Names of what got worse, and of what got better."""
    changes = compare.compared(compare.rows(older), compare.rows(newer))
    worse = [change.row.split()[0] for change in changes if change.is_worse]
    return worse, [change.row.split()[0] for change in changes if change.is_better]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1.0, 1.05], [1.2, 1.25], (["model"], [])),
        ([1.2, 1.25], [1.0, 1.05], ([], ["model"])),
        # Both files are noisy by 0.1: 0.19 is not enough, and 0.21 is.
        ([1.0, 1.1], [1.19, 1.29], ([], [])),
        ([1.0, 1.1], [1.21, 1.31], (["model"], [])),
        # What did not vary at all may still vary by 2 %.
        ([1.0, 1.0], [1.019, 1.019], ([], [])),
        ([1.0, 1.0], [1.021, 1.021], (["model"], [])),
        # Measured once: a quarter of each.
        ([1.0], [1.6], ([], [])),
        ([1.0], [1.7], (["model"], [])),
    ],
)
def test_a_difference_counts_beyond_the_noise_of_both_files(old, new, expected):
    assert found(peers(model=old), peers(model=new)) == expected


def test_rows_of_one_file_are_left_out_and_the_worst_comes_first():
    older = peers(gone=[1.0, 1.0], a=[1.0, 1.0], b=[1.0, 1.0])
    assert found(older, peers(new=[9.0, 9.0], a=[1.5, 1.5], b=[3.0, 3.0])) == (["b", "a"], [])


def test_growth_is_compared_size_by_size():
    def document(*seconds: float) -> dict[str, object]:
        runs = [[each, each * 1.01] for each in seconds]
        row = {"axis": "nodes", "command": "validate", "sizes": [100, 1000], "cpu": runs, "wall": runs}
        return {"growth_rows": [{**row, "peak": [[0, 0], [0, 0]]}]}

    changes = compare.compared(compare.rows(document(1, 10)), compare.rows(document(1, 12)))
    assert {(change.row, change.figure) for change in changes if change.is_worse} == {
        ("validate: nodes 1,000", "cpu"),
        ("validate: nodes 1,000", "wall"),
    }


@pytest.mark.parametrize(("new", "code"), [([1.0, 1.02], 0), ([2.0, 2.02], 1)])
def test_the_command_ends_with_1_where_something_got_worse(tmp_path, monkeypatch, capsys, new, code):
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, runs in zip(paths, ([1.0, 1.02], new), strict=True):
        path.write_text(json.dumps(peers(resnet=runs)))
    monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, paths)])
    with pytest.raises(SystemExit) as ended:
        compare.main()
    assert ended.value.code == code
    assert ("+100 %" in capsys.readouterr().out) == bool(code)


def test_costs_keep_every_run():
    first, second = (run([sys.executable, "-c", "pass"]).cost for _ in range(2))
    both = second.best(first)
    assert both.repeated["wall"] == [first.wall, second.wall]
    assert (both.wall, both.runs) == (min(first.wall, second.wall), 2)
    # A file from before runs were kept.
    assert second.best(Cost(1.0, 1.0, 1)).repeated == {}


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found_where_figures_are_large_enough(power):
    sizes = [10, 100, 1000, 10000]
    figures = [max(3e-4 * size**power, 0.01) for size in sizes]
    left = [figure for figure in figures if figure >= 0.02]
    exact = fitted(sizes, figures, 0.02)
    assert exact is None if len(left) < 2 else exact == pytest.approx(power)


def test_what_grows_faster_than_its_size_is_a_defect():
    def row(power: float) -> Row:
        runs = [[(size / 100) ** power, 2 * (size / 100) ** power] for size in (100, 1000, 10000)]
        return Row("nodes", "insert", (100, 1000, 10000), runs, runs, [[1e7], [1e7], [1e7]])

    assert row(1.1).defects == []
    assert row(1.2).exponent("own") == pytest.approx(1.2)
    assert row(1.2).defects == ["time"]


@pytest.mark.parametrize(
    ("seconds", "peak", "failed", "verdict"),
    [
        ((0.3, 3.0, 30.0), 1e7, "", "linear"),
        ((0.3, 9.0, 270.0), 1e7, "", "time"),
        # One size, or none, takes enough to say how it grows.
        ((0.01, 0.04, 0.9), 1e7, "", "too little to tell"),
        ((0.01, 0.02, 0.03), 1e7, "", "too little to tell"),
        ((0.3, 3.0, 30.0), 1e7, "exit code 3", "FAILED: exit code 3"),
    ],
)
def test_a_verdict_needs_sizes_that_take_enough(seconds, peak, failed, verdict):
    runs = [[each] for each in seconds]
    assert Row("nodes", "insert", (100, 1000, 10000), runs, runs, [[peak]] * 3, failed=failed).verdict == verdict


def test_seconds_in_which_sessions_are_opened_are_shown_and_not_judged() -> None:
    """Opening is quadratic here, and the rest linear: each run is split by itself."""
    sizes = (100, 1000, 10000)
    opening = [[(size / 100) ** 2, 2 * (size / 100) ** 2] for size in sizes]
    cpu = [[size / 100 + first, size / 50 + second] for size, (first, second) in zip(sizes, opening, strict=True)]
    row = Row("nodes", "insert", sizes, cpu, cpu, [[1e7]] * 3, opening)
    assert row.own == pytest.approx([1, 10, 100])
    assert (row.exponent("own"), row.defects) == (pytest.approx(1.0), [])
    assert (row.exponent("cpu") or 0) > 1.5
    older = Row("nodes", "insert", sizes, cpu, cpu, [[1e7]] * 3)
    assert older.own == [min(runs) for runs in cpu]
    assert older.defects == ["time"]
