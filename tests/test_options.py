"""Declared options: what is read of words and of keywords, what objects they make, and that declarations load fast."""

import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from qdqtool.options import (
    COMMAND_LINE,
    PYTHON,
    SWITCH,
    build,
    choice,
    comma_separated,
    declared,
    integer,
    listed,
    option,
    read,
)

LIGHT = (
    "qdqtool.accuracy.checking.limits",
    "qdqtool.engines.options",
    "qdqtool.jobs.conversion.union",
    "qdqtool.jobs.options",
    "qdqtool.linting.options",
    "qdqtool.quantization.planning.options",
    "qdqtool.samples.options",
)
"""The modules with declarations."""
HEAVY = ("numpy", "onnx", "onnxruntime", "click", "rich", "msgspec")


@dataclass(frozen=True, kw_only=True)
class Oven:
    heat: int = option(180, "How hot.", integer("C", 1), section="Oven")
    fan: bool = option(True, "Move the air.", SWITCH, section="Oven", name="oven_fan")


@dataclass(frozen=True, kw_only=True)
class Bake:
    oven: Oven = field(default_factory=Oven)
    shape: int = option(1, "The form.", choice("round", "long", values=(1, 2)), section="Bread")
    seeds: tuple[str, ...] = option((), "On top.", listed("SEED"), section="Bread", flags=("--seed",))
    tags: tuple[str, ...] = option((), "Words.", comma_separated("TAG,..."), section="Bread")
    notes: dict[str, str] = option({}, "Notes.", listed("NOTE"), section="Bread", only="python")
    baker: str = "nobody"


def test_options_of_a_group_stand_in_its_place():
    found = list(declared(Bake))
    assert [each.name for each in found] == ["heat", "oven_fan", "shape", "seeds", "tags", "notes"]
    assert [each.flag for each in found][:4] == ["--heat", "--oven-fan", "--shape", "--seed"]
    assert found[5].only == "python"


def test_words_and_keywords_give_the_same_values():
    words = {"heat": 200, "shape": "long", "seeds": ("poppy",), "tags": ("a, b", "c"), "other": 1}
    keywords = {"heat": 200, "shape": "long", "seeds": ["poppy"], "tags": ["a", "b", "c"]}
    expected = {"heat": 200, "shape": 2, "seeds": ("poppy",), "tags": ("a", "b", "c")}
    assert read(declared(Bake), words, COMMAND_LINE) == expected
    assert read(declared(Bake), keywords, PYTHON) == expected


def test_what_is_left_out_is_none_or_no_word():
    assert read(declared(Bake), {"heat": None, "seeds": (), "shape": None}, COMMAND_LINE) == {}
    assert read(declared(Bake), {"heat": None, "seeds": []}, PYTHON) == {"seeds": ()}


def test_an_object_is_made_with_those_inside_it_and_takes_its_values():
    values = {"heat": 200, "oven_fan": False, "shape": 2, "baker": "Ann", "other": 1}
    assert build(Bake, values) == Bake(oven=Oven(heat=200, fan=False), shape=2, baker="Ann")
    assert values == {"other": 1}
    assert build(Bake, {}) == Bake()
    assert build(Bake, {"heat": 1}, oven=Oven(heat=3)).oven.heat == 3


def test_a_value_is_written_as_its_word():
    kinds = {each.name: each.kind for each in declared(Bake)}
    assert (kinds["shape"].word(2), kinds["heat"].word(7)) == ("long", 7)
    assert kinds["shape"].keyword == 'Literal["round", "long"]'


def test_messages_spell_options_as_they_were_given():
    assert (COMMAND_LINE("min_sqnr"), PYTHON("min_sqnr")) == ("--min-sqnr", "min_sqnr")
    assert (COMMAND_LINE.either("a", "b"), PYTHON.either("a", "b")) == ("a", "b")


@pytest.mark.parametrize("module", LIGHT)
def test_declarations_load_nothing_heavy(module: str):
    program = f"import sys, {module}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
