"""tools/generated.py: what follows from code and is in git is current."""

import json
import re

import pytest
from support.json_schemas import schemas
from support.paths import ROOT

from tools import generated


@pytest.mark.parametrize("number", range(len(generated.GENERATORS)))
def test_generated_files_are_current(number: int):
    made = generated.GENERATORS[number]()
    assert made
    stale = [name for name, text in made.items() if (ROOT / name).read_text(encoding="utf-8") != text]
    assert stale == [], "make generated writes them again"


def test_no_schema_is_left_of_a_type_that_is_gone():
    assert generated.stored_schemas() == generated.schema_files().keys()


def test_a_schema_has_a_line_for_each_property_and_definition():
    schema = {
        "type": "object",
        "properties": {"properties": {"type": "string"}, "b": {"type": "object", "properties": {"c": {}}}},
        "required": ["b"],
        "$defs": {"D": {"description": "d"}},
    }
    text = generated.compact(schema)
    assert json.loads(text) == schema
    assert list(json.loads(text)) == list(schema)
    assert text.splitlines() == [
        '{"type": "object", "properties": {',
        ' "properties": {"type": "string"},',
        ' "b": {"type": "object", "properties": {',
        '  "c": {}',
        " }}",
        '}, "required": ["b"], "$defs": {',
        ' "D": {"description": "d"}',
        "}}",
    ]
    assert all(text.count("\n") < 420 for text in map(generated.compact, schemas().values()))


def test_the_table_of_layers_has_every_package_and_module_in_the_order_of_the_contract():
    (page,) = generated.layer_table().values()
    (table,) = generated.LAYERS.findall(page)
    names = re.findall(r"^\| `(\w+)` \| [A-Z]", table, re.MULTILINE)
    there = {path.stem for path in (ROOT / "qdqtool").glob("[a-z]*") if path.suffix in {"", ".py"}}
    assert set(names) == there - {"py"}
    assert names.index("cli") < names.index("jobs") < names.index("models") < names.index("errors")
