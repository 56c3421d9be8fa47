"""What a shell offers for the values of options: rules, targets, modes, and names in the model on the line.

A completion is asked for while a user waits: each function imports what it needs alone, and prints nothing. What it
cannot find out is an empty list.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import onnx

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

MAX_MODEL_BYTES = 1 << 28
"""A larger model takes longer to read than a user waits for names."""


def offer(find: Callable[[click.Context], Iterable[str]], *, takes_commas: bool = False) -> Complete:
    """Return a completion that offers the words that begin as what is typed.

    Args:
        find: Returns every legal word; what it raises means that there is none.
        takes_commas: Whether the option takes several words with commas; the last of them is completed.
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
    """Return what ``explain`` takes: codes of rules, pages and commands."""
    from qdqtool.jobs import pages

    return (*rule_codes(context), *pages.topics())


def schemas(_context: click.Context) -> Iterable[str]:
    """Return the names of JSON Schemas."""
    from qdqtool.reports.schemas import schema_names

    return schema_names()


def target_names(_context: click.Context) -> Iterable[str]:
    """Return the targets."""
    from qdqtool.models import targets

    return targets.names()


def targets_and_releases(context: click.Context) -> Iterable[str]:
    """Return the targets, and those of them that are releases."""
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
    """Return the name of each node of the model on the line, or of its first output for a node without a name."""
    return (node.name or next(iter(node.output), "") for node in _nodes(context))


def op_types(context: click.Context) -> Iterable[str]:
    """Return the operators of the model on the line."""
    return (node.op_type for node in _nodes(context))


def input_names(context: click.Context) -> Iterable[str]:
    """Return the names of the inputs of the model on the line, each with the colon that its shape or value follows."""
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
    """Return the model on the line without its external data; None if the line has no model, or a large one."""
    import onnx

    # Where a line ends with an option that lacks its value, click leaves the arguments here.
    given = context.params.get("model") or next(iter(context.params.get("models") or context.args), None)
    path = Path(given) if given is not None else None
    if path is None or not path.is_file() or path.stat().st_size > MAX_MODEL_BYTES:
        return None
    return onnx.load(path, load_external_data=False)


def _is_plain(word: str) -> bool:
    """Whether a shell shows a word unchanged: the answer to a shell is one line for each word."""
    return bool(word) and word.isprintable()
