"""Compare the Q/DQ of two models at each input that reads a tensor."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from qdqtool.models.diff.matching import QdqStep, ReadSite, Side, match, sites
from qdqtool.models.diff.parameters import Change, changes, form, granularity_name, kind
from qdqtool.models.diff.readings import Moved, Passed, computes, pair_moves, reading
from qdqtool.models.diff.report import ChangedPair, DiffReport, DisturbedReader, MovedPair, PairInfo
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Scope
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import display


@dataclass(slots=True)
class _Found:
    """A step, and the sites at which its comparison has the same result."""

    side: Side
    step: QdqStep
    sites: list[ReadSite]
    changes: tuple[Change, ...] = ()


class Comparison:
    """A comparison of two models: equal, changed, moved, removed and added steps."""

    def __init__(self, before: Side, after: Side) -> None:
        self._before, self._after = before, after
        self._nodes, self._scopes = match(before.index.view, after.index.view)
        self._changes: dict[tuple[QdqStep, QdqStep], tuple[Change, ...]] = {}
        self._same: dict[QdqStep, _Found] = {}
        self._changed: dict[tuple[QdqStep, QdqStep], _Found] = {}
        self._removed: dict[tuple[Scope, QdqStep], _Found] = {}
        self._added: dict[tuple[Scope, QdqStep], _Found] = {}

    def report(self) -> DiffReport:
        """Compare every site that reads a tensor, and return the differences."""
        seen: set[ReadSite] = set()
        for scope in self._before.index.view.scopes:
            for site in sites(scope):
                other = self._counterpart(site)
                if other is not None:
                    seen.add(other)
                self._compare(site, other)
        for scope in self._after.index.view.scopes:
            for site in sites(scope):
                if site not in seen:
                    self._note(self._added, self._after, site, self._after.steps(site.value)[0])
        moves = pair_moves(self._moved(self._removed), self._moved(self._added), self._nodes, self._equal)
        return self._result(dict(moves))

    def _result(self, moves: dict[int, int]) -> DiffReport:
        removed, added = list(self._removed.values()), list(self._added.values())
        came = set(moves.values())
        lost = [each for number, each in enumerate(removed) if number not in moves]
        pairs, disturbed = _count(self._before), tuple(self._disturbed({each.step for each in lost}))
        return DiffReport(
            before=self._before.path,
            after=self._after.path,
            pairs_before=pairs,
            pairs_after=_count(self._after),
            preserved=pairs > 0 and not (lost or self._changed or disturbed),
            same=len({step.first for step in self._same} - self._different()),
            removed=tuple(map(_info, lost)),
            changed=tuple(ChangedPair(_info(each), each.changes) for each in self._changed.values()),
            moved=tuple(MovedPair(_info(removed[old]), _info(added[new])) for old, new in moves.items()),
            added=tuple(_info(each) for number, each in enumerate(added) if number not in came),
            disturbed=disturbed,
            versions=tuple(_versions(self._before.model, self._after.model)),
            unmatched=sum(
                node not in self._nodes and not self._before.index.qdq.get(node)
                for node in self._before.index.view.nodes()
            ),
        )

    def _different(self) -> set[QdqNode]:
        """Return the first node of each step that was removed or changed for some reader in the second model."""
        removed, changed = (step for _, step in self._removed), (step for step, _ in self._changed)
        return {step.first for step in (*removed, *changed)}

    def _disturbed(self, lost: set[QdqStep]) -> Iterator[DisturbedReader]:
        """Yield the readers that get different values although none of their pairs was lost or changed."""
        listed = lost | {before for before, _ in self._changed}
        for scope in self._before.index.view.scopes:
            for site in filter(computes, sites(scope)):
                first = reading(self._before, site.value)
                if not first or any(each.step in listed for each in first):
                    continue
                other = self._counterpart(site)
                second = reading(self._after, other.value) if other is not None else None
                if second is None or not self._alike(first, second):
                    yield DisturbedReader(
                        site.label,
                        display(scope.path),
                        tuple(_info(_Found(self._before, each.step, [site])) for each in first),
                        None
                        if other is None or second is None
                        else tuple(_info(_Found(self._after, each.step, [other])) for each in second),
                    )

    def _alike(self, first: tuple[Passed, ...], second: tuple[Passed, ...]) -> bool:
        return len(first) == len(second) and all(
            old.moves == new.moves and self._equal(old.step, new.step) for old, new in zip(first, second, strict=True)
        )

    def _counterpart(self, site: ReadSite) -> ReadSite | None:
        scope = self._scopes.get(site.scope)
        if scope is None:
            return None
        if site.node is None:
            return ReadSite(scope, None, site.index) if site.index < len(scope.output_names()) else None
        node = self._nodes.get(site.node)
        return ReadSite(scope, node, site.index) if node is not None and node.input_name(site.index) else None

    def _compare(self, site: ReadSite, other: ReadSite | None) -> None:
        first = self._before.steps(site.value)[0]
        second = self._after.steps(other.value)[0] if other is not None else ()
        both, gone, new = align(first, second, self._equal)
        for old, now in both:
            difference = self._difference(old, now)
            if difference:
                found = self._changed.setdefault((old, now), _Found(self._before, old, [], difference))
            else:
                found = self._same.setdefault(old, _Found(self._before, old, []))
            found.sites.append(site)
        self._note(self._removed, self._before, site, gone)
        if other is not None:
            self._note(self._added, self._after, other, new)

    def _note(
        self, where: dict[tuple[Scope, QdqStep], _Found], side: Side, site: ReadSite, steps: Iterable[QdqStep]
    ) -> None:
        for step in steps:
            where.setdefault((site.scope, step), _Found(side, step, [])).sites.append(site)

    def _difference(self, old: QdqStep, new: QdqStep) -> tuple[Change, ...]:
        if (old, new) not in self._changes:
            self._changes[old, new] = changes(self._before, old, self._after, new)
        return self._changes[old, new]

    def _equal(self, old: QdqStep, new: QdqStep) -> bool:
        return not self._difference(old, new)

    def _moved(self, found: dict[tuple[Scope, QdqStep], _Found]) -> list[Moved]:
        return [Moved(each.step, _around(each)) for each in found.values()]


def _around(found: _Found) -> frozenset[NodeView]:
    """Return the nodes next to a step: its readers, and the producer of the quantized tensor."""
    nodes = {site.node for site in found.sites if site.node is not None}
    source = found.side.steps(found.sites[0].value)[1]
    if source is not None and source.producer is not None:
        nodes.add(source.producer)
    return frozenset(nodes)


def _count(side: Side) -> int:
    return len(
        {step.first for scope in side.index.view.scopes for site in sites(scope) for step in side.steps(site.value)[0]}
    )


def _info(found: _Found) -> PairInfo:
    side, entry = found.side, found.step.main
    source = found.step.source
    scale = side.index.constants.array(entry.scale) if entry.scale is not None else None
    values = scale.astype(np.float64) if scale is not None and scale.size else None
    return PairInfo(
        tensor=source.name if source is not None else "",
        graph=display(found.sites[0].scope.path),
        form=form(side, found.step),
        type=kind(entry),
        granularity=granularity_name(entry.granularity),
        scale_min=float(values.min()) if values is not None else None,
        scale_max=float(values.max()) if values is not None else None,
        readers=tuple(dict.fromkeys(site.label for site in found.sites)),
    )


def _versions(before: Model, after: Model) -> Iterator[Change]:
    if before.proto.ir_version != after.proto.ir_version:
        yield Change("IR version", str(before.proto.ir_version), str(after.proto.ir_version))
    old, new = (
        {entry.domain or "ai.onnx": entry.version for entry in model.proto.opset_import} for model in (before, after)
    )
    for domain in sorted({*old, *new}):
        if old.get(domain) != new.get(domain):
            yield Change(f"opset {domain}", str(old.get(domain, "absent")), str(new.get(domain, "absent")))


Each = TypeVar("Each")


def align(
    before: Sequence[Each], after: Sequence[Each], equal: Callable[[Each, Each], bool]
) -> tuple[list[tuple[Each, Each]], list[Each], list[Each]]:
    """Pair the items of two short sequences: first equal items, then the remaining items, both in order.

    Returns:
        The pairs, the unpaired items of ``before``, and the unpaired items of ``after``.
    """
    if len(before) == len(after):
        return list(zip(before, after, strict=True)), [], []
    pairs: list[tuple[Each, Each]] = []
    rest, others = list(before), list(after)
    for item in before:
        equal_item = next((other for other in others if equal(item, other)), None)
        if equal_item is not None:
            pairs.append((item, equal_item))
            rest.remove(item)
            others.remove(equal_item)
    shared = min(len(rest), len(others))
    return [*pairs, *zip(rest[:shared], others[:shared], strict=True)], rest[shared:], others[shared:]
