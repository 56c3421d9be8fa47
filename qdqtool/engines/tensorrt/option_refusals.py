"""Explain why a builder does not take a deployment option: its API lacks it, refuses the value, or needs more."""

import re

from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.process import Outcome
from qdqtool.errors import CapabilityError, GateError, QdqError, UsageError

# These messages are those of TensorRT for RTX 1.7.1 on a machine without a GPU.
_NO_DEVICE = "CHECK(status == CUDA_SUCCESS) failed"
_NO_ROOM = re.compile(r"within workspace limit|OutOfMemory \(Requested size was (?P<bytes>\d+) bytes")
_NO_LIBRARY = re.compile(r"Unable to load library: (?P<name>[\w.]*nvinfer_lean[\w.]*)")


def unusable_option(title: str, outcome: Outcome, wanted: DeploymentOptions) -> QdqError | None:
    """Return the error for a deployment option that stopped the build; None where none did.

    Args:
        title: The product, for messages.
        outcome: What the child process left.
        wanted: The options of the build.
    """
    facts = outcome.facts
    match facts.get("problem"):
        case "lacking":
            return UsageError(
                f"{title} {facts['version']} has no {facts['option']}: its API has no {facts['message']}",
                hint="leave the option out, or install a release that has it",
            )
        case "option":
            return UsageError(f"{title} {facts['version']} does not take {facts['option']}: {facts['message']}")
        case "refused":
            return _needs_more(title, "\n".join(text for _, text in outcome.log), wanted)
    return None


def check_targets(title: str, targets: tuple[str, ...], wanted: DeploymentOptions) -> None:
    """Check that the options can be built for all targets.

    Raises:
        UsageError: They cannot.
    """
    # Measured with TensorRT for RTX 1.7.1: with two, the builder ends with "CHECK(sm_vers_.size() == 1) failed".
    if wanted.refit and len(targets) > 1:
        raise UsageError(
            f"{title} builds an engine that can be refitted for one compute capability, and {len(targets)} are named",
            hint=f"name the one of your GPU: `--compute-capabilities {targets[-1]}`",
        )


def _needs_more(title: str, log: str, wanted: DeploymentOptions) -> QdqError | None:
    options = [option for option in wanted.flags() if option in {"--refit", "--strip-weights"}]
    if options and _NO_DEVICE in log:
        return CapabilityError(
            f"{title} needs a CUDA device to build with {' and '.join(options)}, and finds none",
            hint="build where an NVIDIA GPU is, or leave the option out",
        )
    room = _NO_ROOM.search(log)
    if room is not None and wanted.mem_pool_size:
        asked = f": it asks for {room['bytes']} bytes" if room["bytes"] else ""
        given = ", ".join(f"{size} bytes of {pool}" for pool, size in wanted.mem_pool_size.items())
        return GateError(
            f"{title} finds no kernels for the model within {given}{asked}",
            hint="give --mem-pool-size more, or leave it out",
        )
    library = _NO_LIBRARY.search(log)
    if library is not None and wanted.version_compatible:
        return CapabilityError(
            f"{title} puts the library {library['name']} into a version compatible engine, and it is absent",
            hint="`--exclude-lean-runtime` builds without it: the program that runs the engine has to load it",
        )
    return None
