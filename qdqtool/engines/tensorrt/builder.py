"""The interface of an engine builder: request, result, refusals. It is the same for every product."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.engines.report import Evidence, InputProfile, Refusal, Stage
from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.errors import GateError
from qdqtool.models.graph.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """One build.

    Attributes:
        model: The model in the file ``model.path``, which the builder reads itself.
        engine: File to write; the caller renames it after the build has succeeded.
        targets: Compute capabilities such as ``8.6``; empty for the GPU in this machine.
        profiles: Shapes of the dynamic inputs, for all optimization profiles.
        values: The user's values for inputs that decide shapes; the entries contain these values instead of extents.
        measured_values: Values of integer inputs in the data, which every profile uses for inputs that decide shapes.
        profile_count: Number of optimization profiles.
        deployment: Options for the deployment of the engine.
        timeout: Seconds after which the builder is stopped.
        verbose_log: File for the builder's whole log; None for no file.
    """

    model: Model
    engine: Path
    targets: tuple[str, ...] = ()
    profiles: tuple[InputProfile, ...] = ()
    values: tuple[InputProfile, ...] = ()
    measured_values: tuple[InputProfile, ...] = ()
    profile_count: int = 1
    deployment: DeploymentOptions = field(default_factory=DeploymentOptions)
    timeout: float = 1800.0
    verbose_log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a build.

    Attributes:
        version: Version of the builder.
        evidence: The source of ``kernels``.
        kernels: The kernels of the engine; empty without evidence.
        layer_dump: The builder's own text or JSON from which ``kernels`` were read.
        warnings: Messages of the builder that a user should know, without repetitions.
        values: The values that the engine must accept for inputs that decide shapes.
        parse_seconds: Time in the parser.
        build_seconds: Time in the builder.
        timing_cache: Content of the timing cache after the build; None if none was requested.
    """

    version: str
    evidence: Evidence
    kernels: tuple[Kernel, ...]
    layer_dump: str = ""
    warnings: tuple[str, ...] = ()
    values: tuple[InputProfile, ...] = ()
    parse_seconds: float = 0.0
    build_seconds: float = 0.0
    timing_cache: bytes | None = None


class BuildRefusedError(GateError):
    """The validate gate, the parser or the builder refused the model.

    Attributes:
        title: The product or gate that refused, for messages.
        refusals: Every reason that was given, the decisive one first.
        stage: The stage that refused.
        remark: Whether the float model is refused too, in words; empty if that is unknown.
    """

    def __init__(self, title: str, refusals: tuple[Refusal, ...], stage: Stage, *, hint: str | None = None) -> None:
        first = refusals[0]
        where = f" node '{first.node}' ({first.op_type})" if first.node and first.op_type else " the model"
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(f"{title} refuses{where}: {first.reason}{more}", hint=hint or first.hint)
        self.title = title
        self.refusals = refusals
        self.stage = stage
        self.remark = ""


class BuilderFailedError(BuildRefusedError):
    """The builder's process crashed, ran out of time or out of memory; no engine was written.

    Attributes:
        how: How the process ended, in words: ``crashed with SIGSEGV while building``.
        is_slow: Whether it exceeded the time limit.
    """

    def __init__(self, title: str, how: str, stage: Stage, *, is_slow: bool = False, hint: str | None = None) -> None:
        super().__init__(title, (Refusal(reason=f"the builder {how}", message=how, hint=hint),), stage)
        self.how = how
        self.is_slow = is_slow
        self._say("")

    def because(self, cause: Refusal | None, hint: str) -> "BuilderFailedError":
        """Return the failure with another hint, and with a rule's finding (None for none) as its cause."""
        failed = BuilderFailedError(self.title, self.how, self.stage, is_slow=self.is_slow, hint=hint)
        if cause is not None:
            reason = f"{failed.refusals[0].reason}; {cause.reason}"
            failed.refusals = (replace(cause, reason=reason, message=self.how, hint=hint),)
            place = f" in node '{cause.node}' ({cause.op_type})" if cause.node else ""
            failed._say(f", probably because of {cause.code}{place}: {cause.reason}")
        return failed

    def _say(self, cause: str) -> None:
        self.message = f"{self.title} {self.how}{cause}; no engine was written"
        self.args = (self.message,)
