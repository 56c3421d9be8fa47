"""Check that after a batch of edits every tensor name is defined once and every used name is defined."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from qdqtool.models.graph.edits.batch import EditError, ScopeBatch, where
from qdqtool.models.graph.index.view import GraphView, Scope, Use
from qdqtool.models.graph.scope import ScopePath


def check_batches(view: GraphView, batches: Mapping[ScopePath, ScopeBatch]) -> None:
    """Check that the model is consistent after the edits.

    Raises:
        EditError: A new name exists already in its scope, one around it or one below it; a tensor that vanishes is
            still read; or an edit reads a tensor that is defined nowhere in sight.
    """
    checker = _Checker(batches)
    checker.check_new_names(view)
    for batch in batches.values():
        checker.check_vanished(batch)
        checker.check_reads(batch)


class _Checker:
    def __init__(self, batches: Mapping[ScopePath, ScopeBatch]) -> None:
        self._batches = batches
        self._new = {path: Counter(batch.new_names()) for path, batch in batches.items()}
        self._old = {path: batch.old_names() for path, batch in batches.items()}

    def check_new_names(self, view: GraphView) -> None:
        new = {name for names in self._new.values() for name in names}
        definers: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in view.scopes:
            kept = Counter((scope.values.keys() & new) - self._old.get(scope.path, set()))
            for name, times in (kept + self._new.get(scope.path, Counter())).items():
                definers[name] += [scope] * times
        for name, scopes in definers.items():
            _check_sole_definer(name, scopes)

    def check_vanished(self, batch: ScopeBatch) -> None:
        path = batch.scope.path
        for name in sorted(self._old[path] - self._new[path].keys()):
            value = batch.scope.values[name]
            if value.is_output:
                raise EditError(f"tensor '{name}' would vanish, but it is an output of {where(path)}")
            reader = next((use for use in value.uses if not self._is_moved(use)), None)
            if reader is not None:
                raise EditError(
                    f"tensor '{name}' of {where(path)} would vanish, "
                    f"but input {reader.index} of node '{reader.node.label}' reads it"
                )

    def check_reads(self, batch: ScopeBatch) -> None:
        for name in dict.fromkeys(_names_read(batch)):
            if not any(self._defines(scope, name) for scope in _from(batch.scope)):
                raise EditError(f"an edit in {where(batch.scope.path)} reads tensor '{name}', which is defined nowhere")

    def _defines(self, scope: Scope, name: str) -> bool:
        if name in self._new.get(scope.path, ()):
            return True
        return name in scope.values and name not in self._old.get(scope.path, ())

    def _is_moved(self, use: Use) -> bool:
        scope = use.node.scope
        batch = self._batches.get(scope.path)
        if batch is not None:
            change = batch.changes.get(use.node.key)
            if use.node.key in batch.removed or (change is not None and use.index in change.inputs):
                return True
        return any(self._loses_owner(around) for around in _from(scope))

    def _loses_owner(self, scope: Scope) -> bool:
        owner = scope.owner
        batch = self._batches.get(owner.scope.path) if owner is not None else None
        return owner is not None and batch is not None and owner.key in batch.removed


def _check_sole_definer(name: str, scopes: list[Scope]) -> None:
    seen: set[ScopePath] = set()
    for scope in scopes:
        if scope.path in seen:
            raise EditError(f"tensor '{name}' would be defined twice in {where(scope.path)}")
        seen.add(scope.path)
    for scope in scopes:
        hidden = next((outer for outer in _around(scope) if outer.path in seen), None)
        if hidden is not None:
            raise EditError(f"tensor '{name}' of {where(scope.path)} would hide that of {where(hidden.path)}")


def _names_read(batch: ScopeBatch) -> Iterator[str]:
    for node in batch.added:
        yield from filter(None, node.inputs)
    for key, change in batch.changes.items():
        if key not in batch.removed:
            yield from filter(None, change.inputs.values())


def _from(scope: Scope) -> Iterator[Scope]:
    """Yield a scope and those around it: most names are found in the first, whatever the depth."""
    yield scope
    yield from _around(scope)


def _around(scope: Scope) -> Iterator[Scope]:
    outer = scope.parent
    while outer is not None:
        yield outer
        outer = outer.parent
