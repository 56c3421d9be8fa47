"""Plug-in units are the modules of a folder that do not begin with an underscore."""

import importlib
import sys

import pytest

from qdqtool.registry import load_unit, suggestion, unit_names


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with two units, a helper and a package inside."""
    folder = tmp_path / "plugged_units"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__", "second", "first", "_helper", "inner/__init__"):
        (folder / f"{name}.py").write_text(f"NAME = {name!r}\n")
    (folder / "notes.txt").write_text("no module")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("plugged_units")
    for name in [name for name in sys.modules if name.startswith("plugged_units")]:
        del sys.modules[name]


def test_units_are_the_public_modules_in_alphabetical_order(package):
    assert unit_names(package) == ("first", "second")


def test_names_are_found_without_importing_the_units(package):
    unit_names(package)
    assert "plugged_units.first" not in sys.modules
    assert load_unit(package, "first").NAME == "first"


def test_a_new_file_is_a_new_unit(package, tmp_path):
    (tmp_path / "plugged_units" / "another.py").write_text("NAME = 'another'\n")
    importlib.invalidate_caches()
    assert unit_names(package) == ("another", "first", "second")
    assert load_unit(package, "another").NAME == "another"


@pytest.mark.parametrize(
    ("word", "tail"), [("int-8", "; did you mean 'int8'?"), ("unit4", "; did you mean 'uint4'?"), ("mx", ""), ("", "")]
)
def test_a_near_word_is_suggested_and_a_far_one_is_not(word, tail):
    assert suggestion(word, iter(["int8", "uint4", "mxfp8"])) == tail


def test_nothing_is_suggested_when_nothing_is_legal():
    assert suggestion("int8", []) == ""
