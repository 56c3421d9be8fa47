"""What the user asks for: the options of every step."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import ArgumentError, CapabilityError, UsageError
from qdqtool.jobs.conversion.report import StepName
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.linting.baseline import read_baseline
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.settings import FailOn
from qdqtool.models import targets
from qdqtool.samples.feeds import Progress
from qdqtool.samples.script import split_script


def _ignore(*_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertProgress:
    """Functions that a conversion calls to report its progress.

    Attributes:
        step: Called with the name of each step when the step begins.
        samples: Called after each sample, with the samples so far and their number.
        layers: Called for each run while layers are measured, with the runs so far and the most that are made.
    """

    step: Callable[[StepName], None] = _ignore
    samples: Progress = _ignore
    layers: Progress = _ignore


_BUILT = ("tensorrt", "tensorrt-rtx")
"""The targets, with or without a release, whose models an engine is built from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The options of a conversion, step by step.

    Attributes:
        quantize: How the model is quantized. It names no files for ranges and plan, which the folder gets.
        policy: Which rules the quantized model is judged by; None for all rules of the target it is quantized for, and
            of the GPUs that ``build`` names.
        fail_on: The severity from which on a finding ends the conversion: ``error``, ``warning`` or ``never``.
        known_findings: A file of findings that do not count, as ``validate --write-baseline`` writes it; None for none.
        check: Limits on the numbers against the float model, and what else the check does.
        blame: Whether layers are named also where the numbers keep every limit.
        strict: Whether a warning gives exit code 1 too.
        build: How the engine is built; None for no engine. The calibration data of ``quantize`` gives the shapes of
            dynamic inputs; this names none.
        backend: ``tensorrt``, ``tensorrt-rtx``, or ``auto``: the target where it is one of them and installed, else the
            first of them that is installed.
    """

    quantize: QuantizeOptions = field(default_factory=QuantizeOptions)
    policy: Policy | None = None
    fail_on: FailOn = "error"
    known_findings: Path | None = None
    check: CheckOptions = field(default_factory=CheckOptions)
    blame: bool = False
    strict: bool = False
    build: BuildOptions | None = field(default_factory=BuildOptions)
    backend: str = backends.AUTO

    def __post_init__(self) -> None:
        if self.quantize.ranges_file is not None or self.quantize.plan_file is not None:
            raise ArgumentError("quantize names a file for ranges or plan; a conversion writes both into its folder")
        if self.check.engine is not None or self.check.outputs is not None:
            raise ArgumentError(
                "check names an engine or outputs, but the model does not exist yet; check it afterwards"
            )

        if self.build is not None and self.build.calib_data is not None:
            raise ArgumentError("build names calibration data; a conversion takes that of quantize")

    @property
    def target(self) -> str:
        """The target that the model is quantized for."""
        return self.quantize.recipe.target

    def judged_by(self) -> Policy:
        """Return the rules that the quantized model is judged by."""
        if self.policy is not None:
            return self.policy
        gpus = self.build.compute_capabilities if self.build is not None else ()
        return Policy(targets=(self.target,), compute_capabilities=targets.capabilities(gpus))

    def validate(self) -> None:
        """Check what the steps after ``quantize`` would refuse, before anything takes time."""
        policy = self.judged_by()
        Linter(policy)
        self.quantize.recipe.require_hardware(policy.compute_capabilities)
        if self.known_findings is not None:
            read_baseline(self.known_findings)
        self.check.gates.require_finite()
        if self.check.metric is None:
            self.check.validate(None, has_baseline=True, has_data=True)

    def builder(self) -> TensorRT | None:
        """Return what builds the engine; None where none is asked for.

        Raises:
            CapabilityError: It is not installed, or there is no GPU that it needs.
            UsageError: The target is nothing that an engine is built for.
        """
        if self.build is None:
            return None
        family = next((name for name in reversed(_BUILT) if self.target.startswith(name)), None)
        if family is None and self.backend == backends.AUTO:
            raise UsageError(
                f"no engine is built for target {self.target}",
                hint="`--no-build`, or name the builder: `--backend NAME`",
            )
        is_there = family is not None and backends.get(family).is_installed()
        builder = backends.get(family if family is not None and is_there and self.backend == "auto" else self.backend)
        try:
            builder.require()
        except CapabilityError as error:
            hint = "`--no-build` converts without an engine"
            raise CapabilityError(error.message, hint=f"{hint}; {error.hint}" if error.hint else hint) from None
        return builder

    def files(self) -> set[Path]:
        """Return every file that the options name: inputs, and outputs besides the folder's."""
        return set(paths_in(self))


def paths_in(value: Any) -> Iterator[Path]:
    """Yield every path in options or a request for data; of a script with a function, the path of the script."""
    if isinstance(value, Path):
        script = split_script(str(value))
        yield script[0] if script is not None else value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from paths_in(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from paths_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from paths_in(each)
