"""Shell completion of option values: rules, targets, modes, and names in the model on the command line.

A user waits for a completion, so each function imports only what it needs, and prints nothing. If a function cannot
find words, it returns an empty list.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import onnx

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

MAX_MODEL_BYTES = 1 << 28
"""A completion does not read a larger model, because that takes too long."""


def offer(find: Callable[[click.Context], Iterable[str]], *, takes_commas: bool = False) -> Complete:
    """Return a completion that offers the words that begin with the typed text.

    Args:
        find: Returns every legal word; if it raises an exception, no words are offered.
        takes_commas: Whether the option accepts several words with commas; the last word is completed.
    """

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, word = incomplete.rpartition(",") if takes_commas else ("", "", incomplete)
        try:
            found = sorted(set(find(context)))
        except Exception:  # noqa: BLE001 -- a line that is being typed may name anything, and a traceback would break it
            return []
        return [CompletionItem(f"{before}{comma}{each}") for each in found if each.startswith(word) and _is_plain(each)]

    return complete


def rule_codes(_context: click.Context) -> Iterable[str]:
    """Return the codes of the rules."""
    from qdqtool.jobs import pages

    return pages.rule_codes()


def topics(context: click.Context) -> Iterable[str]:
    """Return the arguments that ``explain`` accepts: codes of rules, pages and commands."""
    from qdqtool.jobs import pages

    return (*rule_codes(context), *pages.topics())


def schemas(_context: click.Context) -> Iterable[str]:
    """Return the names of JSON Schemas."""
    from qdqtool.reports.schemas import schema_names

    return schema_names()


def target_names(_context: click.Context) -> Iterable[str]:
    """Return the ids of the targets."""
    from qdqtool.models import targets

    return targets.names()


def targets_and_releases(context: click.Context) -> Iterable[str]:
    """Return the ids of the targets and of their releases."""
    from qdqtool.models import targets

    names = tuple(target_names(context))
    return (*names, *(release for name in names for release in targets.releases(name)))


def units(package: str) -> Callable[[click.Context], Iterable[str]]:
    """Return a function that returns the names of the modules of a plug-in folder, such as ``planning.modes``."""

    def find(_context: click.Context) -> Iterable[str]:
        import importlib

        from qdqtool.registry import unit_names

        return (name.replace("_", "-") for name in unit_names(importlib.import_module(f"qdqtool.{package}")))

    return find


def node_names(context: click.Context) -> Iterable[str]:
    """Return the name of each node of the model on the command line, or the first output of a node without a name."""
    return (node.name or next(iter(node.output), "") for node in _nodes(context))


def op_types(context: click.Context) -> Iterable[str]:
    """Return the operators of the model on the command line."""
    return (node.op_type for node in _nodes(context))


def input_names(context: click.Context) -> Iterable[str]:
    """Return the input names of the model on the command line, each with a colon for its shape or value."""
    model = _model(context)
    if model is None:
        return ()
    constants = {each.name for each in model.graph.initializer}
    return (f"{each.name}:" for each in model.graph.input if each.name not in constants)


def _nodes(context: click.Context) -> Iterable["onnx.NodeProto"]:
    from qdqtool.models.graph.scope import walk

    model = _model(context)
    return () if model is None else (node for _, container in walk(model) for node in container.node)


def _model(context: click.Context) -> "onnx.ModelProto | None":
    """Return the model on the command line without external data, or None if there is no model or a large one."""
    import onnx

    # If the line ends with an option without its value, click leaves the arguments here.
    given = context.params.get("model") or next(iter(context.params.get("models") or context.args), None)
    path = Path(given) if given is not None else None
    if path is None or not path.is_file() or path.stat().st_size > MAX_MODEL_BYTES:
        return None
    return onnx.load(path, load_external_data=False)


def _is_plain(word: str) -> bool:
    """Whether bash, zsh and fish all take a word literally; otherwise a name from a model could run a command."""
    return re.fullmatch(r"[\w/][\w/.:@%+,-]*", word) is not None
