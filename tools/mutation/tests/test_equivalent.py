"""The reviewed list stays true, and names the mutants that it says."""

import pytest
from support.paths import ROOT

from tools.mutation.equivalent import EVERYWHERE, Equivalent, listed


def test_every_entry_names_a_line_that_is_there():
    for entry in listed():
        if entry.module != EVERYWHERE:
            text = (ROOT / entry.module).read_text()
            assert entry.line in " ".join(text.split()), f"{entry.module}: {entry.line}"


@pytest.mark.parametrize(
    ("after", "is_equivalent"),
    [
        ("a.reshape(-2) * b.reshape(-1)", True),
        ("a.reshape(-1) * b.reshape(-2)", True),
        ("a.reshape(-2) * b.reshape(-2)", False),
        ("a.reshape(-1) / b.reshape(-1)", False),
    ],
)
def test_an_entry_for_every_module_is_about_one_place_of_a_line(after: str, is_equivalent: bool):
    entry = Equivalent(EVERYWHERE, "reshape(-1)", "reshape(-2)", "numpy")
    assert entry.is_about("qdqtool/x.py", "a.reshape(-1) * b.reshape(-1)", after) is is_equivalent


@pytest.mark.parametrize(("module", "is_equivalent"), [("qdqtool/x.py", True), ("qdqtool/y.py", False)])
def test_an_entry_of_a_module_is_about_whole_lines_of_it(module: str, is_equivalent: bool):
    entry = Equivalent("qdqtool/x.py", "a < b", "a <= b", "never equal")
    assert entry.is_about(module, "a < b", "a <= b") is is_equivalent
    assert not entry.is_about(module, "if a < b", "if a <= b")
