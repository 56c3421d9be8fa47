"""The report of ``reduce`` as data: the keys of the JSON report are the attributes of these classes."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from qdqtool.jobs.reduction.failure import Failure, Kind
from qdqtool.jobs.reduction.reducer import StepDone
from qdqtool.results import Report

_PACKAGES = ("onnx", "onnxruntime", "onnxruntime-gpu", "tensorrt", "tensorrt-rtx", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFound:
    """How the command failed.

    Attributes:
        kind: ``exit code``, ``signal``, ``time-out``, ``refused``, ``gate`` or ``match``.
        detail: The exit code, the name of the signal, the stage that refused, or the expression that matched.
        message: The message as it was printed.
    """

    kind: str
    detail: str
    message: str

    @classmethod
    def of(cls, failure: Failure) -> "FailureFound":
        """Return the description of a failure."""
        return cls(kind=failure.kind.value, detail=failure.detail, message=failure.message)

    def __str__(self) -> str:
        """Return the description in one line."""
        by = "by " if self.kind == Kind.REFUSED.value else ""
        how = f"{self.kind} {by}{self.detail}".strip()
        return f"{how}: {self.message}" if self.message else how


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The size of a model.

    Attributes:
        nodes: Number of nodes, including all bodies.
        bytes: Bytes of the model and its external data.
    """

    nodes: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceReport(Report):
    """The result of ``reduce``.

    Attributes:
        model: The model on which the command fails.
        output: The reduced model.
        external_data: The data file of the reduced model, if any.
        baseline: The part of the baseline that corresponds to the reduced model; None without a baseline.
        report: The Markdown report; None if the output is a stream, next to which no file can be written.
        command: The command line that fails on the reduced model.
        before: How the command failed on the whole model.
        after: How it fails on the reduced model.
        sizes_before: Size of the whole model.
        sizes_after: Size of the reduced model.
        operators: Operators of the reduced model, each with the number of its nodes.
        steps: The steps that were carried out, in order.
        runs: Number of runs of the command.
        repeated: Number of candidates that were not run because they had been tried before.
        invalid: Number of candidates that onnx refuses; they were not run.
        history: An entry for each smaller model that failed alike: the numbers of runs and of remaining nodes.
        complete: Whether all steps were completed: no step can then make the model smaller.
        stable: Whether the first two runs failed alike.
        short_timeout: Whether the failure is a time-out, and a run that passed took more than half of the time limit.
        versions: Version of each installed tool, of Python and of the platform.
    """

    model: str
    output: str
    external_data: str | None
    baseline: str | None
    report: str | None
    command: str
    before: FailureFound
    after: FailureFound
    sizes_before: ModelSize
    sizes_after: ModelSize
    operators: dict[str, int]
    steps: tuple[StepDone, ...]
    runs: int
    repeated: int
    invalid: int
    history: tuple[tuple[int, int], ...]
    complete: bool
    stable: bool
    short_timeout: bool
    versions: dict[str, str]


def tool_versions() -> dict[str, str]:
    """Return the versions of qdqtool, of the packages that run models, of Python and of the platform."""
    from qdqtool.results import __version__

    found = {"qdqtool": __version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "Python": platform.python_version(), "platform": platform.platform()}
