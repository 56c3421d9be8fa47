"""Every code block of the pages is what its tag says, and the commands and scripts of a page run in their order.

``support.page_folders`` has what each page takes for granted, and names what cannot run, with the reason.
"""

from pathlib import Path

import pytest
from support.block_checks import faults
from support.block_runs import run_blocks
from support.code_blocks import PAGES, Block, blocks_of
from support.page_folders import FOLDERS
from support.paths import ROOT


def name_of(page: Path) -> str:
    """A page as the tables below call it."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_what_its_tag_says(page: Path):
    assert {str(block): found for block in blocks_of(page) if (found := faults(block))} == {}


def does_something(block: Block) -> bool:
    """Whether there is something to run in a block."""
    return block.tag == "python" or any(command.words[0] == "qdqtool" for command in block.commands)


def test_every_page_with_something_to_run_has_a_folder():
    assert [name_of(page) for page in PAGES if any(map(does_something, blocks_of(page)))] == sorted(FOLDERS)


@pytest.mark.slow(reason="runs every command of a page")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.builder) if folder.builds else name for name, folder in FOLDERS.items()],
)
def test_commands_and_scripts_of_a_page_run_in_their_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = FOLDERS[name]
    if folder.builds:
        pytest.importorskip("tensorrt_rtx")
    monkeypatch.setenv("NO_COLOR", "1")
    folder.lay_out(tmp_path)
    left_out = run_blocks(blocks_of(ROOT / name), tmp_path, names=folder.names, not_run=folder.not_run)
    assert left_out == set(folder.not_run), "what is not run stands on the page"


def test_the_plan_of_the_tutorial_is_the_beginning_of_the_real_one():
    (shown,) = [block.text for block in blocks_of(ROOT / "docs/start/tutorial.md") if block.tag == "toml plan-file"]
    assert (
        (ROOT / "sample_models/digits_cnn/plan.toml").read_text(encoding="utf-8").partition("\n")[2].startswith(shown)
    )


def test_the_python_page_shows_what_its_scripts_print():
    blocks = blocks_of(ROOT / "docs/reference/python.md")
    assert [block.tag for block in blocks if block.tag == "python" or block.is_output] == ["python", "text"] * 6
