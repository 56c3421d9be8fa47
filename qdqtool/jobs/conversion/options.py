"""The request of the user: the options of every step."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.tensorrt import backends
from qdqtool.engines.tensorrt.gpus import check
from qdqtool.engines.tensorrt.planned_types import WEIGHT_ONLY
from qdqtool.engines.tensorrt.tensorrt_builder import TensorRT
from qdqtool.errors import ArgumentError, CapabilityError, UsageError
from qdqtool.jobs.conversion.report import StepName
from qdqtool.jobs.quantize import QuantizeOptions
from qdqtool.linting.baseline import read_baseline
from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.settings import FailOn
from qdqtool.models import targets
from qdqtool.numerics import formats
from qdqtool.quantization.planning.options import Existing
from qdqtool.samples.feeds import Progress
from qdqtool.samples.script import split_script


def _ignore(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertProgress:
    """Functions that a conversion calls to report its progress.

    Attributes:
        step: Called with the name of each step when the step begins.
        samples: Called after each sample, with the number of finished samples and of all samples.
        layers: Called for each run while layers are measured, with the number of finished runs and the largest number.
    """

    step: Callable[[StepName], None] = _ignore
    samples: Progress = _ignore
    layers: Progress = _ignore


_BUILT = ("tensorrt", "tensorrt-rtx")
"""The targets, with or without a release, for which engines are built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The options of a conversion, step by step.

    Attributes:
        quantize: How the model is quantized. It must not name files for ranges and plan; the folder gets both.
        policy: The rules for the quantized model; None for all rules, for its target and the GPUs that ``build`` names.
        fail_on: The lowest severity at which a finding ends the conversion: ``error``, ``warning`` or ``never``.
        known_findings: A file of findings to ignore, as ``validate --write-baseline`` writes it; None for no file.
        check: Limits on the difference from the float model, and further options of the check.
        blame: Whether to rank layers by noise even if no limit is exceeded.
        strict: Whether a warning also gives exit code 1.
        build: How the engine is built; None for no engine. It must not name calibration data: the data of ``quantize``
            gives the shapes of dynamic inputs.
        backend: ``tensorrt``, ``tensorrt-rtx``, or ``auto``: the target if it is one of these and installed, else the
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
            raise ArgumentError("quantize sets ranges_file or plan_file, but a conversion writes both into its folder")
        if self.check.engine is not None or self.check.outputs is not None:
            raise ArgumentError(
                "check sets engine or outputs, but the quantized model does not exist yet; check it later"
            )

        if self.build is not None and self.build.calib_data is not None:
            raise ArgumentError("build sets calib_data, but a conversion uses the calibration data of quantize")

    @property
    def target(self) -> str:
        """The target for which the model is quantized."""
        return self.quantize.recipe.target

    def judged_by(self) -> Policy:
        """Return the rules for the quantized model."""
        if self.policy is not None:
            return self.policy
        gpus = self.build.compute_capabilities if self.build is not None else ()
        return Policy(targets=(self.target,), compute_capabilities=targets.capabilities(gpus))

    def validate(self) -> None:
        """Check the options of the later steps before ``quantize`` runs."""
        policy = self.judged_by()
        Linter(policy)
        self.quantize.recipe.require_hardware(policy.compute_capabilities)
        self._require_planned()
        if self.known_findings is not None:
            read_baseline(self.known_findings)
        self.check.gates.require_finite()
        if self.check.metric is None:
            self.check.validate(None, has_baseline=True, has_data=True)

    def _require_planned(self) -> None:
        recipe = self.quantize.recipe
        names = (recipe.mode.weights, recipe.mode.activations, recipe.fallback)
        planned = {formats.get(name).name for name in names if name is not None}
        for gate in self.build.require_precision if self.build is not None else ():
            if recipe.existing is not Existing.KEEP and gate.type.removesuffix(WEIGHT_ONLY) not in planned:
                problem = (
                    f"--require-precision '{gate}': quantize mode '{recipe.quantize_mode}' plans nothing for that type"
                )
                raise UsageError(problem, hint=f"its types: {', '.join(sorted(planned))}")

    def builder(self) -> TensorRT | None:
        """Return the builder of the engine, or None if no engine is requested.

        Raises:
            CapabilityError: The builder is not installed, or it needs a GPU and there is none.
            UsageError: No engines are built for the target, or for a GPU that the user named.
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
            if builder.capabilities:
                check(builder.target, self.build.compute_capabilities, builder.capabilities, frozenset())
        except (CapabilityError, UsageError) as error:
            hint = "`--no-build` converts without an engine"
            raise type(error)(error.message, hint=f"{hint}; {error.hint}" if error.hint else hint) from None
        return builder

    def files(self) -> set[Path]:
        """Return every file that the options name: inputs, and outputs outside the folder."""
        return set(paths_in(self))


def paths_in(value: Any) -> Iterator[Path]:
    """Yield every path in options or a data request; for a script with a function, the path of the script."""
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
