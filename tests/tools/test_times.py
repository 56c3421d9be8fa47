"""tools/times.py: the processor seconds of tests, by file and test, and their limits."""

import sys
from pathlib import Path

import pytest

from tools import times


def case(name: str, *properties: tuple[str, float | str]) -> str:
    file, _, test = name.partition("::")
    inner = "".join(f'<property name="{key}" value="{value}"/>' for key, value in properties)
    return f'<testcase classname="{file}" name="{test}" time="99"><properties>{inner}</properties></testcase>'


@pytest.fixture
def junit(tmp_path: Path) -> Path:
    """A run by two workers."""
    cases = [
        case("tests.a::one", ("collecting", 11), ("processor", 2)),
        case("tests.a::two", ("processor", 0.5)),
        case("tests.b::one", ("slow", "builds"), ("collecting", 12.25), ("processor", 4)),
        case("tests.b::one", ("ending", 1.25)),
    ]
    file = tmp_path / "junit.xml"
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return file


def test_seconds_by_file_and_test(junit: Path):
    found = times.read_times(junit)
    assert (found.total, found.fast) == (31, 25.75)
    assert list(times.lines(found)) == [
        "31 processor seconds in 3 tests, 11 + 12 of them for collecting",
        "1 of them at the end, for processes that served many tests",
        "26 without the 1 slow ones",
        "this machine took 1.00 times as long; the seconds here are divided by that",
        "\nslowest 40 of 2 files",
        "     4.0  tests.b",
        "     2.5  tests.a",
        "\nslowest 40 tests",
        "     4.0  tests.b::one (slow)",
        "     2.0  tests.a::one",
        "     0.5  tests.a::two",
    ]


def test_seconds_of_a_slower_machine_are_divided_by_its_slowness(junit: Path):
    plain = times.read_times(junit)
    text = junit.read_text()
    work = "".join(case(f"tests.c::{number}", ("work", 2 * times.REFERENCE)) for number in range(3))
    junit.write_text(text.replace("</testsuite>", f"{work}{case('tests.c::odd', ('work', 9))}</testsuite>"))
    found = times.read_times(junit)
    assert (found.slowness, found.total, found.collecting) == (2, plain.total / 2, (5.5, 6.125))


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"test seconds": 24, "test-all seconds": 29, "collection seconds": 12}, None),
        ({"test seconds": 23}, "test seconds: 26, limit 23\n"),
        ({"test-all seconds": 27}, "test-all seconds: 31, limit 27\n"),
        ({"collection seconds": 11}, "collection seconds: 12, limit 11\n"),
    ],
)
def test_a_tenth_more_than_the_limit_is_too_much(
    limits: dict[str, int], told: str | None, junit: Path, monkeypatch: pytest.MonkeyPatch
):
    (junit.parent / "tools").mkdir()
    text = "\n".join(f'["{name}"]\nlimit = {limit}' for name, limit in limits.items())
    (junit.parent / times.LIMITS).write_text(text)
    monkeypatch.setattr(times, "ROOT", junit.parent)
    monkeypatch.setattr(sys, "argv", ["times.py", "tests", str(junit)])
    if told is None:
        times.main()
        return
    with pytest.raises(SystemExit) as ended:
        times.main()
    assert str(ended.value.code) == f"{told}Make it faster, or raise the limit in tools/budget.toml and say why there."


def test_the_demo_is_run_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    packages = "lib/python3.11/site-packages/one-1.0.dist-info"
    recipe = f"demo:\n\ttest ! -e .demo && mkdir -p .demo/{packages} && echo 'Name: one' > .demo/{packages}/METADATA\n"
    (tmp_path / "Makefile").write_text(recipe)
    (tmp_path / ".demo").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / times.LIMITS).write_text('["demo packages"]\nlimit = 45\n')
    monkeypatch.setattr(times, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["times.py", "demo"])
    times.main()
    assert "demo packages: 1\n" in capsys.readouterr().out
