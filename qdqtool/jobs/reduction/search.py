"""Try each candidate once, and keep the smallest one that fails alike."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnx import checker

from qdqtool.jobs.reduction.commands import Command
from qdqtool.jobs.reduction.failure import Failure
from qdqtool.jobs.reduction.subgraph import store
from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.io.copying import without_weights
from qdqtool.models.graph.io.tensors import is_external, iter_tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk


class Validity:
    """The validity checks that a candidate must pass.

    Only checks that the original model passes are applied, because its failure may be that it is invalid.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self._is_checked = _passes_checker(proto)
        self._is_inferred = infer_types(without_weights(proto)).is_sound

    def accepts(self, proto: onnx.ModelProto) -> bool:
        """Return whether a candidate is as valid as the whole model."""
        if self._is_checked and not _passes_checker(proto):
            return False
        return not self._is_inferred or infer_types(without_weights(proto)).is_sound


def _passes_checker(proto: onnx.ModelProto) -> bool:
    """Return whether onnx accepts a model; large weights are replaced by graph inputs and not read."""
    bare = without_weights(proto)
    for tensor in [each for each in bare.graph.initializer if is_external(each)]:
        if all(value.name != tensor.name for value in bare.graph.input):
            bare.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        bare.graph.initializer.remove(tensor)
    for value in (*bare.graph.input, *bare.graph.output):
        # onnx requires the rank of an input, which shape inference may not know; runtimes do not need it.
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    if any(map(is_external, iter_tensors(bare))):
        # For weights in a body, onnx would search their data.
        return True
    try:
        checker.check_model(bare)
    except (checker.ValidationError, ValueError):
        return False
    return True


class OutOfRunsError(Exception):
    """The number of runs that the user allows is used up."""


@dataclass(slots=True)
class Counts:
    """Counts of the search.

    Attributes:
        runs: Number of runs of the command.
        repeated: Number of candidates that had been tried before.
        invalid: Number of candidates that onnx refuses.
        passed: Number of candidates that were run and did not fail alike.
        slowest_pass: Seconds of the longest run that ended without any failure.
        history: An entry for each smaller model that failed alike: the numbers of runs and of remaining nodes.
    """

    runs: int = 0
    repeated: int = 0
    invalid: int = 0
    passed: int = 0
    slowest_pass: float = 0.0
    history: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Trials:
    """How candidates are run.

    Attributes:
        command: The command that fails.
        folder: The folder for candidates.
        max_runs: Number of runs after which the search ends.
        progress: Called with the number of finished runs and the number of nodes of the smallest model.
    """

    command: Command
    folder: Path
    max_runs: int
    progress: Callable[[int, int], None]


class Search:
    """The search for a smaller model on which the command fails as on the given model.

    Attributes:
        best: The smallest model so far that fails alike.
        counts: Counts of the search.
        attempts: How often a candidate is run, at most; more than once if the failure is not stable.
        cuts: The tensors at which a model may be cut: those that the baseline also has. None for all tensors.
        kept_unused: Initializers that the failure needs although no node reads them.
    """

    def __init__(self, model: Model, trials: Trials) -> None:
        self.best = model
        self.counts = Counts()
        self.attempts = 1
        self.cuts = trials.command.cuts
        self.kept_unused: frozenset[str] = frozenset()
        self._trials = trials
        self._known: dict[bytes, bool] = {}
        self._validity: Validity | None = None
        self._failure: Failure | None = None

    @property
    def failure(self) -> Failure:
        """How the smallest model fails."""
        assert self._failure is not None
        return self._failure

    def observe(self, model: Model) -> Failure | None:
        """Run the command on a model; return its failure, or None if it succeeds.

        Raises:
            OutOfRunsError: No runs are left.
        """
        if self.counts.runs >= self._trials.max_runs:
            raise OutOfRunsError
        self.counts.runs += 1
        self._trials.progress(self.counts.runs, node_count(self.best))
        path = self._trials.folder / "candidate.onnx"
        store(model, path)
        begun = time.monotonic()
        failure = self._trials.command.run(path, self._trials.folder)
        if failure is None:
            self.counts.slowest_pass = max(self.counts.slowest_pass, time.monotonic() - begun)
        return failure

    def start(self, failure: Failure) -> None:
        """Set the failure that smaller models must have."""
        self._failure = failure
        self._validity = Validity(self.best.proto)
        self._known[_digest(self.best)] = True

    def accepts(self, candidate: Model | None) -> bool:
        """Try a candidate; if it fails alike, it becomes the best model.

        Args:
            candidate: A model, or None if no such model exists; None is never accepted.
        """
        if candidate is None:
            return False
        key = _digest(candidate)
        if key in self._known:
            self.counts.repeated += 1
            if self._known[key]:
                self.best = candidate
            return self._known[key]
        valid = self.is_valid(candidate)
        self.counts.invalid += not valid
        self._known[key] = valid and self._fails(candidate)
        return self._known[key]

    def is_valid(self, candidate: Model) -> bool:
        """Whether a candidate is as valid as the model that is reduced; no child process is started."""
        assert self._validity is not None
        return self._validity.accepts(candidate.proto)

    def _fails(self, candidate: Model) -> bool:
        for _ in range(self.attempts):
            failure = self.observe(candidate)
            if failure is not None and failure.is_like(self.failure):
                self._failure = failure
                self.best = candidate
                self.counts.history.append((self.counts.runs, node_count(candidate)))
                return True
        self.counts.passed += 1
        return False


def node_count(model: Model) -> int:
    """Return the number of nodes in all scopes."""
    return sum(len(container.node) for _, container in walk(model.proto))


def _digest(model: Model) -> bytes:
    """Return the digest of a candidate, with the location of external weights instead of their values."""
    return hashlib.sha256(model.proto.SerializeToString(deterministic=True)).digest()
