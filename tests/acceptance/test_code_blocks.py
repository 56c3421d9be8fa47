"""Every code block of the pages is what its tag says: commands parse, data is read, Python compiles."""

from pathlib import Path

import pytest
from support.block_checks import faults
from support.code_blocks import PAGES, blocks_of
from support.paths import ROOT

WRITTEN = [page for page in PAGES if page.parent.name != "rules"]
"""The pages of the rules are written by a program, and alike."""


def name_of(page: Path) -> str:
    """A page as the tables below call it."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_block_is_what_its_tag_says(page: Path):
    assert {str(block): found for block in blocks_of(page) if (found := faults(block))} == {}


def test_every_example_of_a_rule_is_a_model():
    blocks = [block for page in PAGES if page not in WRITTEN for block in blocks_of(page)]
    assert len(blocks) > 300
    assert {block.tag for block in blocks} == {"onnx"}
    assert {str(block): found for block in blocks if (found := faults(block))} == {}
