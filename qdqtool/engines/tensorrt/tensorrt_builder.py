"""The builder class that TensorRT for RTX and TensorRT share; each product is one instance."""

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from qdqtool.engines.report import NO_PLUGIN, InputProfile, NodePrecision
from qdqtool.engines.tensorrt import gpus, process
from qdqtool.engines.tensorrt.builder import BuildRefusedError, Built, EngineRequest
from qdqtool.engines.tensorrt.deployment import DeploymentOptions, spelled
from qdqtool.engines.tensorrt.inspector import UnknownShapeError, read_dump, read_inspector
from qdqtool.engines.tensorrt.kernels import Kernel
from qdqtool.engines.tensorrt.operator_hints import PLUGIN_HINT
from qdqtool.engines.tensorrt.parser_errors import builder_refusals, parser_refusals
from qdqtool.engines.tensorrt.planned_types import planned_nodes, quantized_types
from qdqtool.engines.tensorrt.precision import compare
from qdqtool.engines.tensorrt.process import Outcome
from qdqtool.engines.tensorrt.shape_values import missing_values, used_values
from qdqtool.errors import CapabilityError, GateError, OutputError, QdqError, UsageError, plural
from qdqtool.models import targets
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.plugins import plugin_operators, stand_in_paths

# Messages of TensorRT for RTX on a machine without a GPU.
_NO_DEVICE = "CHECK(status == CUDA_SUCCESS) failed"
_OUT_OF_MEMORY = re.compile(r"within workspace limit|OutOfMemory \(Requested size was (?P<bytes>\d+) bytes")
_NO_LIBRARY = re.compile(r"Unable to load library: (?P<name>[\w.]*nvinfer_lean[\w.]*)")


def unusable_option(title: str, outcome: Outcome, wanted: DeploymentOptions) -> QdqError | None:
    """Return the error for a deployment option that stopped the build, or None if no option did."""
    facts = outcome.facts
    match facts.get("problem"):
        case "lacking":
            return UsageError(
                f"{title} {facts['version']} does not support {facts['option']}: its API has no {facts['message']}",
                hint="leave the option out, or install a release that has it",
            )
        case "option":
            return UsageError(f"{title} {facts['version']} does not accept {facts['option']}: {facts['message']}")
        case "plugin":
            return CapabilityError(
                f"{title} {facts['version']} cannot load the plugin library {facts['option']}: {facts['message']}",
                hint="the library must fit this product and release, and the libraries that it needs must be installed",
            )
        case "refused":
            return _needs_more(title, "\n".join(text for _, text in outcome.log), wanted)
    return None


def check_targets(title: str, targets: tuple[str, ...], wanted: DeploymentOptions) -> None:
    """Check that the options can be built for all targets.

    Raises:
        UsageError: An option does not support several targets.
    """
    # Measured with TensorRT for RTX: with two targets, the builder ends with "CHECK(sm_vers_.size() == 1) failed".
    if wanted.refit and len(targets) > 1:
        raise UsageError(
            f"{title} builds a refittable engine for one compute capability only; {len(targets)} are given",
            hint=f"give the compute capability of your GPU: `--compute-capabilities {targets[-1]}`",
        )


def _needs_more(title: str, log: str, wanted: DeploymentOptions) -> QdqError | None:
    options = [option for option in wanted.flags() if option in {"--refit", "--strip-weights"}]
    if options and _NO_DEVICE in log:
        return CapabilityError(
            f"{title} needs a CUDA device to build with {' and '.join(options)}, and finds none",
            hint="build where an NVIDIA GPU is, or leave the option out",
        )
    if (refused := process.OUT_OF_MEMORY.search(log)) is not None:
        return process.lack_of_memory(title, refused[0])
    shortage = _OUT_OF_MEMORY.search(log)
    if shortage is not None and wanted.mem_pool_size:
        asked = f": it asks for {shortage['bytes']} bytes" if shortage["bytes"] else ""
        given = ", ".join(f"{size} bytes of {pool}" for pool, size in wanted.mem_pool_size.items())
        return GateError(
            f"{title} finds no kernels for the model within {given}{asked}",
            hint="raise --mem-pool-size, or leave it out",
        )
    library = _NO_LIBRARY.search(log)
    if library is not None and wanted.version_compatible:
        return CapabilityError(
            f"{title} needs the library {library['name']} for a version-compatible engine, and it is missing",
            hint="`--exclude-lean-runtime` builds without it: the program that runs the engine has to load it",
        )
    return None


# Parts of warnings of TensorRT that a user must know, each with its meaning. The report leaves out other warnings.
_KEPT_WARNINGS = (
    ("Int64 binding", "an input is int64: the program that runs the engine must bind int64 data"),
    ("Defaulting to INT8 instead", "a uint8 zero point was taken as int8: the code range is -128 to 127, not 0 to 255"),
    ("kMIN values are not self-consistent", "the smallest shapes are too small for a layer; inference with them fails"),
)

_OTHER_PLUGIN = (
    "no loaded library has a plugin with the name, version and namespace that the parser looks for; "
    "`--verbose-log FILE` lists them"
)
_UNTOUCHED = {"--timing-cache-file": ": the file is neither read nor written"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRT:
    """A TensorRT product that builds engines; each module of :mod:`~qdqtool.engines.tensorrt.backends` defines one.

    Attributes:
        id: Public id of the backend.
        title: Its name in messages.
        target: The target of :mod:`qdqtool.models.targets` that it builds for.
        module: The Python module to import in the child process.
        install: The command that installs it.
        remark: The machines on which it works.
        capabilities: Compute capabilities that it can build for; empty if it always builds for the GPU in the machine.
        needs_gpu: Whether it needs a GPU to build, and inspects engines on this GPU.
        idle_options: Deployment options that the API has but that do not change the engine. A timing cache among them
            is not used. The other options are passed on, so that the builder can refuse their values.
    """

    id: str
    title: str
    target: str
    module: str
    install: str
    remark: str
    capabilities: tuple[str, ...] = ()
    needs_gpu: bool = False
    idle_options: tuple[str, ...] = ()

    @property
    def release(self) -> str:
        """The target of the installed release, or the target itself if the product is not installed."""
        try:
            return targets.of_release(self.target, importlib.metadata.version(self.module))
        except importlib.metadata.PackageNotFoundError:
            return self.target

    def is_installed(self) -> bool:
        """Whether its package is installed; nothing is imported."""
        return gpus.is_installed(self.module)

    def require(self) -> None:
        """Check that the product is installed.

        Raises:
            CapabilityError: It is not installed; the hint has the command that installs it.
        """
        if not self.is_installed():
            raise CapabilityError(
                f"{self.title} is not installed (Python module '{self.module}')",
                hint=f"install it: `{self.install}` ({self.remark})",
            )

    def resolve_targets(self, asked: tuple[str, ...], model: Model) -> tuple[str, ...]:
        """Return the compute capabilities to build for; empty for the GPU in this machine.

        Args:
            asked: Compute capabilities from the user, such as ``8.6``; empty for the default. The default leaves out
                7.5, which lacks kernels that most models need, and all that cannot compute the quantized types of the
                model.
            model: The model to build.

        Raises:
            UsageError: A compute capability is unknown, lacks a type of the model, or cannot be given to this builder.
        """
        if not self.capabilities:
            if asked:
                raise UsageError(
                    f"{self.title} builds for the GPU in this machine and does not accept --compute-capabilities",
                    hint="leave the option out, or use `--backend tensorrt-rtx`",
                )
            return ()
        types = quantized_types(model)
        if asked:
            gpus.check(self.target, asked, self.capabilities, types)
            return asked
        return gpus.default(self.target, self.capabilities, types)

    def build(self, request: EngineRequest) -> Built:
        """Parse and build in a child process, which writes the engine to ``request.engine``."""
        self.require()
        check_targets(self.title, request.targets, request.deployment)
        used = replace(request, deployment=request.deployment.without(self.idle_options))
        outcome = process.run(self.module, used, inspect=self.needs_gpu, title=self.title)
        self._raise_for(outcome, request)
        kernels, fault = self._kernels(outcome)
        return Built(
            version=str(outcome.facts["version"]),
            evidence=("inspector" if self.needs_gpu else "aot-dump") if kernels else "none",
            kernels=kernels,
            layer_dump=outcome.layers,
            warnings=(*_warnings(outcome), *_of_plugins(outcome, request), *fault, *self._idle(outcome, request)),
            values=_values(outcome, request),
            parse_seconds=float(outcome.facts["parse_seconds"]),
            build_seconds=float(outcome.facts["build_seconds"]),
            timing_cache=outcome.timing_cache,
        )

    def precision(self, model: Model, built: Built) -> tuple[NodePrecision, ...]:
        """Compare the planned and the actual type of each quantized node."""
        return compare(planned_nodes(model), built)

    def _kernels(self, outcome: Outcome) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
        """Return the kernels of the engine, or a warning why they are unknown."""
        if not self.needs_gpu:
            return read_dump(outcome.layers), ()
        if not outcome.layers:
            return (), (
                f"{self.title} built the engine but did not load it: the types in which its nodes run are unknown",
            )
        try:
            return read_inspector(outcome.layers), ()
        except UnknownShapeError as error:
            return (), (_unread(f"{self.title} {outcome.facts['version']}", error),)

    def _idle(self, outcome: Outcome, request: EngineRequest) -> list[str]:
        given = map(spelled, request.deployment.given())
        version = outcome.facts["version"]
        return [
            f"{option} has no effect on an engine of {self.title} {version}{_UNTOUCHED.get(option, '')}"
            for option in given
            if option in self.idle_options
        ]

    def _raise_for(self, outcome: Outcome, request: EngineRequest) -> None:
        facts = outcome.facts
        unusable = unusable_option(self.title, outcome, request.deployment)
        if unusable is not None:
            raise unusable
        match facts.get("problem"):
            case None:
                return
            case "import":
                raise CapabilityError(
                    f"{self.title} is installed but cannot be loaded: {facts['message']}",
                    hint=f"reinstall it: `{self.install} --force-reinstall` ({self.remark})",
                )
            case "device":
                raise CapabilityError(
                    f"{self.title} finds no NVIDIA GPU that it can use",
                    hint="`--backend tensorrt-rtx` builds without one" if self.needs_gpu else self.remark,
                )
            case "values":
                raise missing_values(request.model, facts["missing"])
            case "write":
                raise OutputError(
                    f"the engine cannot be written to {request.engine.parent}: {facts['message']}; nothing was left"
                )
            case "refused":
                raise self._refused(outcome, request)
            case problem:
                raise GateError(f"{self.title} failed: {problem}")

    def _refused(self, outcome: Outcome, request: EngineRequest) -> BuildRefusedError:
        errors = outcome.facts.get("errors")
        if errors:
            refusals = parser_refusals(errors, outcome.facts.get("further", []))
            if request.deployment.plugins:
                hints = [(each.hint or "").replace(PLUGIN_HINT, _OTHER_PLUGIN) or None for each in refusals]
                refusals = tuple(replace(each, hint=hint) for each, hint in zip(refusals, hints, strict=True))
            return BuildRefusedError(self.title, refusals, "parse")
        return BuildRefusedError(self.title, builder_refusals(outcome.log, outcome.facts.get("message")), "build")


def _unread(product: str, error: UnknownShapeError) -> str:
    return (
        f"cannot read the inspector's output of {product}: {error}; the engine was built, but the types in which "
        "its nodes run are unknown (--export-layer-info FILE keeps the output)"
    )


def _values(outcome: Outcome, request: EngineRequest) -> tuple[InputProfile, ...]:
    shape_inputs = outcome.facts["shape_inputs"]
    given = used_values(request.values, shape_inputs)
    found: list[InputProfile] = []
    for index in range(request.profile_count):
        here = [entry for entry in given if entry.profile == index]
        names = {entry.name for entry in here}
        measured = [p for p in request.measured_values if p.name in shape_inputs and p.name not in names]
        found += [*here, *(replace(entry, profile=index) for entry in measured)]
    return tuple(found)


def _warnings(outcome: Outcome) -> tuple[str, ...]:
    texts = [text for severity, text in outcome.log if severity == "WARNING"]
    return tuple(meaning for mark, meaning in _KEPT_WARNINGS if any(mark in text for text in texts))


def _of_plugins(outcome: Outcome, request: EngineRequest) -> Iterator[str]:
    """Yield a warning if the engine has fewer plugins than declared nodes, or none of the loaded libraries."""
    declared, found = plugin_operators(request.model.proto), int(outcome.facts["plugin_layers"])
    stand_ins = stand_in_paths(request.model.proto)
    nodes = [each for each in GraphView(request.model).nodes() if each.scope.path[:1] not in stand_ins]
    wanted = sum((each.domain, each.op_type) in declared for each in nodes)
    if found < wanted:
        yield (
            f"{NO_PLUGIN} {wanted - found} of {plural(wanted, 'plugin node')}: it built an operator of "
            "its own, or the local function"
        )
    elif not found and request.deployment.plugins:
        yield "no node of the model became a plugin: the libraries of --plugins are not used"
