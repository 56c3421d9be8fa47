"""The site: the page of the command line has every command with every option, and no page is too long to read."""

import re

import click
from support.code_blocks import PAGES

from qdqtool.cli import command
from qdqtool.jobs.migration.lines import options_of
from tools import site


def test_the_help_of_every_command_takes_the_place_of_the_directive():
    page = site.on_page_markdown("# Command line\n\n::: commands\n\nMore.\n")
    sections = {part.partition("\n")[0]: part for part in page.split("\n### ")[1:]}
    context = click.Context(command)
    assert list(sections) == command.list_commands(context)
    for name, text in sections.items():
        found = command.get_command(context, name)
        flags = {flag for each in found.params if isinstance(each, click.Option) for flag in each.opts}
        assert f"Usage: qdqtool {name} " in text
        assert [flag for flag in sorted(flags) if flag not in text] == []
    assert page.endswith("\n\nMore.\n")


def test_the_options_of_other_tools_take_the_place_of_the_directive():
    page = site.on_page_markdown("# From trtexec\n\n::: options trtexec\n\n::: options modelopt\n")
    assert "| `--versionCompatible`, `--vc` | `build --version-compatible` |  |" in page
    assert "| `--useDLACore` | no counterpart, **lost** | no builder of qdqtool builds for DLA |" in page
    assert "| `--int8` | `quantize --quantize-mode` | Q/DQ nodes replace implicit quantization; removed in" in page
    assert page.count("\n| `") == sum(len(options_of(tool)) for tool in ("trtexec", "modelopt"))
    assert "::: " not in page


def test_a_page_has_at_most_1500_words_beside_its_code():
    read_at_once = [page for page in PAGES if page.parent.name not in ("developers", "reference", "rules")]
    texts = {page: re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8")) for page in read_at_once}
    assert {name: words for name, text in texts.items() if (words := len(text.split())) > 1500} == {}
    assert len(texts) > 10
