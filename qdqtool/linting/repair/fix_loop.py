"""Apply the fixes of ``--fix`` and ``normalize`` in batches without conflicts, prove each batch, and repeat.

A safe fix is kept only if the model computes the same bits afterwards. A batch that fails is halved until the faulty
fix is alone in its batch; then this fix is refused.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from qdqtool.errors import QdqError
from qdqtool.linting.repair.output_changes import output_changes
from qdqtool.linting.repair.proof import NAN_INPUTS, WEAK, Proof, Prover, Run, same_values
from qdqtool.linting.repair.report import Change, RefusedFix, Repaired
from qdqtool.linting.rules import Draft, Fix, Label, RuleContext, UnfitError
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveInitializer,
    RemoveNode,
    RenameOutput,
    SetAttribute,
    SetElementType,
    SetInput,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import EditError, apply_edits
from qdqtool.models.graph.edits.unused import without_unused
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.transforms.opset import upgrade_opset

_WHOLE = "whole"

Place = tuple[ScopePath, tuple[str, ...]]


@dataclass(slots=True)
class Claims:
    """The places that the edits of a batch change, such as an input of a node; no two fixes may change the same one."""

    _taken: dict[Place, set[object]] = field(default_factory=dict)

    def add(self, edits: Sequence[Edit]) -> bool:
        """Reserve all places of ``edits``; return False, and reserve none, if one is already reserved."""
        wanted = [place for edit in edits if (place := _place(edit)) is not None]
        if any(self._is_taken(where, aspect) for where, aspect in wanted):
            return False
        for where, aspect in wanted:
            self._taken.setdefault(where, set()).add(aspect)
        return True

    def _is_taken(self, where: Place, aspect: object) -> bool:
        taken = self._taken.get(where, set())
        return bool(taken) if aspect == _WHOLE else aspect in taken or _WHOLE in taken


def _place(edit: Edit) -> tuple[Place, object] | None:
    match edit:
        # New names are unique in the whole batch, so additions never conflict.
        case AddInitializer() | AddNode():
            return None
        case RemoveInitializer(scope=scope, name=name) | SetElementType(scope=scope, tensor=name):
            return (scope, ("tensor", name)), _WHOLE
        case RemoveNode(scope=scope, node=node):
            return (scope, node), _WHOLE
        case SetInput(index=aspect) | RenameOutput(index=aspect) | SetAttribute(name=aspect):
            return (edit.scope, edit.node), (type(edit), aspect)
        case _:
            return (edit.scope, edit.node), type(edit)


MAX_ROUNDS = 64

NEEDS_UNSAFE = "it changes numbers; --unsafe-fixes applies it"


class Permission(enum.Enum):
    """Which fixes may be applied: proven fixes, also fixes that change numbers, or all with the difference reported."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A fault or foreign form that can be fixed.

    Attributes:
        code: Code of the rule, or name of the pattern.
        node: The node to fix; None for the model as a whole.
        fixes: Alternative fixes, the best first.
    """

    code: str
    node: NodeView | None
    fixes: tuple[Fix, ...]

    @property
    def key(self) -> tuple[str, ScopePath, tuple[str, ...], str]:
        """A key that identifies the proposal in every round."""
        scope, outputs = (self.node.scope.path, self.node.key) if self.node is not None else ((), ())
        return self.code, scope, outputs, self.fixes[0].description


Source = Callable[[RuleContext], Iterable[Proposal]]


@dataclass(frozen=True, slots=True)
class _Chosen:
    proposal: Proposal
    number: int
    draft: Draft

    @property
    def fix(self) -> Fix:
        return self.proposal.fixes[self.number]

    @property
    def key(self) -> tuple[object, int]:
        return self.proposal.key, self.number


@dataclass(slots=True)
class Repair:
    """One model that is being fixed, with the changes so far."""

    model: Model
    source: Source
    prover: Prover
    permission: Permission
    _original: Model = field(init=False)
    _first: Run = field(init=False)
    _now: Run = field(init=False)
    _limit: int | None = field(init=False, default=None)
    _changes: list[Change] = field(init=False, default_factory=list)
    _removed: list[str] = field(init=False, default_factory=list)
    _refused: dict[tuple[object, int], RefusedFix] = field(init=False, default_factory=dict)
    _unfit: dict[object, RefusedFix] = field(init=False, default_factory=dict)

    def run(self) -> Repaired:
        """Apply all fixes that can be applied."""
        self._original = self.model
        proposals = list(self.source(RuleContext(self.model.fork())))
        if not proposals:
            return Repaired()
        self._first = self._now = self.prover.run(self.model)
        applied = 0
        while applied < MAX_ROUNDS:
            before = self.model
            if not self._attempt():
                break
            applied += self.model is not before
        self._refuse_what_is_left()
        return Repaired(
            changes=tuple(self._changes),
            removed=tuple(self._removed),
            refused=(*self._refused.values(), *self._unfit.values()),
            outputs=output_changes(self._original, self._first, self._now, self.prover) if self._changes else (),
            feeds=self.prover.description,
            unproven=self._first.failure,
        )

    def _attempt(self) -> bool:
        """Try one batch of fixes; return False if no fix is left to try."""
        context = RuleContext(self.model.fork())
        proposals = list(self.source(context))
        labels: tuple[Label, ...] = ("safe",) if self.permission is Permission.SAFE else ("safe", "unsafe")
        for label in labels:
            batch = self._batch(context, proposals, label)
            if batch:
                self._try(context, batch[: self._limit], label)
                return True
        return False

    def _batch(self, context: RuleContext, proposals: Iterable[Proposal], label: Label) -> list[_Chosen]:
        """Return fixes with the given label that do not conflict with each other."""
        namer, claims, seen = Namer(context.view), Claims(), set[object]()
        batch: list[_Chosen] = []
        for proposal in proposals:
            chosen = self._choose(context, namer, proposal, label) if proposal.key not in seen else None
            if chosen is not None and claims.add(chosen.draft.edits):
                batch.append(chosen)
                seen.add(proposal.key)
        # The version converter may replace nodes that other fixes would edit, so fixes that raise the opset go alone.
        raising = [chosen for chosen in batch if chosen.draft.opset]
        # Their proof says nothing about NaN, and that of the others does.
        return raising or [chosen for chosen in batch if chosen.fix.offer.is_open_for_nan] or batch

    def _choose(self, context: RuleContext, namer: Namer, proposal: Proposal, label: Label) -> _Chosen | None:
        """Return the first alternative that can be applied, or None if it has another label."""
        for number, fix in enumerate(proposal.fixes):
            if (proposal.key, number) in self._refused:
                continue
            if label == "safe" and fix.offer.label != label:
                return None
            draft = Draft(context, namer)
            try:
                fix.write(draft)
            except UnfitError as reason:
                self._unfit[proposal.key] = _refusal(proposal, fix, str(reason))
                continue
            return _Chosen(proposal, number, draft) if fix.offer.label == label else None
        return None

    def _try(self, context: RuleContext, batch: Sequence[_Chosen], label: Label) -> None:
        if self._now.failure is not None and self.permission is Permission.SAFE:
            self._refuse(batch, f"it cannot be proven: {self._now.failure}; --unsafe-fixes applies it unproven")
            return
        try:
            opset = max(chosen.draft.opset for chosen in batch)
            raised = upgrade_opset(context.model, opset).model if opset else context.model
            edited = apply_edits(raised, [edit for chosen in batch for edit in chosen.draft.edits])
            swept = without_unused(context.view, edited)
        except (EditError, QdqError) as error:
            self._fail(batch, str(error))
            return
        run = self.prover.run(swept.model)
        proof = None
        if self._now.failure is None and run.failure is None:
            proof = self.prover.prove((self.model, self._now), (swept.model, run))
        problem = self._problem(run, proof, label)
        if problem is not None and not (problem == NAN_INPUTS and batch[0].fix.offer.is_open_for_nan):
            self._fail(batch, problem)
            return
        self._limit = None
        self._changes += [self._change(chosen, run, proof) for chosen in batch]
        self._removed += swept.report
        self.model, self._now = swept.model, run

    def _problem(self, run: Run, proof: Proof | None, label: Label) -> str | None:
        """Return why a batch cannot be kept, or None if it can be kept."""
        if self._now.failure is None and run.failure is not None:
            return f"ONNX Runtime cannot run the result: {run.failure}"
        if proof is None or label == "unsafe" or self.permission is Permission.REWRITE:
            return None
        if proof.problem in WEAK and self.permission is Permission.UNSAFE:
            return None
        return proof.problem

    def _change(self, chosen: _Chosen, run: Run, proof: Proof | None) -> Change:
        label, words = "unsafe", f"not proven: {self._now.failure}"
        if proof is not None and proof.outputs is not None:
            equal = "are equal, except for the sign of zeros," if same_values(self._now, run) else "change"
            words = f"outputs {equal} on {self.prover.description}"
        elif proof is not None:
            offer = chosen.fix.offer
            is_proven = proof.holds or (proof.problem == NAN_INPUTS and offer.is_open_for_nan)
            label, words = offer.label if is_proven else "unsafe", proof.words(self.prover.description)
        proposal = chosen.proposal
        return Change(
            code=proposal.code,
            label="safe" if label == "safe" else "unsafe",
            description=chosen.fix.description,
            node=proposal.node.label if proposal.node is not None else None,
            graph=display(proposal.node.scope.path) if proposal.node is not None else "",
            proof=words,
        )

    def _fail(self, batch: Sequence[_Chosen], reason: str) -> None:
        """Halve the batch for the next attempt. If its only fix failed, refuse it; the next attempt tries others."""
        if len(batch) > 1:
            self._limit = len(batch) // 2
            return
        self._limit = None
        self._refuse(batch, reason)

    def _refuse(self, batch: Iterable[_Chosen], reason: str) -> None:
        for chosen in batch:
            self._refused[chosen.key] = _refusal(chosen.proposal, chosen.fix, reason)

    def _refuse_what_is_left(self) -> None:
        """Record fixes that need ``--unsafe-fixes``, and drop refusals for places that have been repaired since."""
        left = list(self.source(RuleContext(self.model.fork())))
        keys = {proposal.key for proposal in left}
        self._unfit = {key: refusal for key, refusal in self._unfit.items() if key in keys}
        for proposal in left:
            for number, fix in enumerate(proposal.fixes):
                if self.permission is Permission.SAFE and fix.offer.label == "unsafe":
                    self._refused[proposal.key, number] = _refusal(proposal, fix, NEEDS_UNSAFE)
                    self._unfit.pop(proposal.key, None)


def _refusal(proposal: Proposal, fix: Fix, reason: str) -> RefusedFix:
    node = proposal.node
    return RefusedFix(
        code=proposal.code,
        label=fix.offer.label,
        description=fix.description,
        node=node.label if node is not None else None,
        graph=display(node.scope.path) if node is not None else "",
        reason=reason,
    )
