"""``qdqtool explain``: show one rule in full, or a page of the manual."""

from pathlib import PurePath

import click

from qdqtool.cli.completion import offer, topics
from qdqtool.cli.options import emit, output_format_option


@click.command(short_help="Explain a rule, or show a page of the manual.")
@click.argument("topic", metavar="[TOPIC]", required=False, shell_complete=offer(topics))
@output_format_option()
def command(*, topic: str | None, output_format: str) -> None:
    """Explain a rule, or show a page of the manual.

    TOPIC is the code of a rule (QP101), its name (parameters.scale-value), a page, or a command. Without a topic the
    pages are listed; `qdqtool rules` lists the rules.
    """
    from qdqtool.jobs import pages
    from qdqtool.jobs.catalogue import explain

    if topic is None:
        emit(pages.manual(), output_format, "manual")
        return
    # Pages refer to each other by their files: how-to/check.md, rules/QP101.md.
    name = PurePath(topic).stem if topic.endswith(".md") else topic
    if name in pages.topics():
        emit(pages.page(name), output_format, "page")
    else:
        emit(explain(name), output_format, "rule")
