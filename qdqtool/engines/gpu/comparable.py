"""Whether the times of two engines can be compared: both compute the same outputs of the same inputs."""

from collections.abc import Sequence

from qdqtool.engines.gpu.runner import Runner
from qdqtool.errors import UsageError


def require_comparable(engine: Runner, against: Runner) -> None:
    """Check that two engines were made from the same network.

    Raises:
        UsageError: Their inputs or outputs have other names or ranks, or the clocks that measure them differ.
    """
    _require_same("inputs", _described(engine), _described(against))
    _require_same("outputs", sorted(engine.outputs), sorted(against.outputs))
    if engine.clock != against.clock:
        raise UsageError(
            "an ONNX model and an engine cannot be compared: the times of one include copies",
            hint="build both, or give both as ONNX models",
        )


def require_order(planned: dict[str, int] | None, against: dict[str, int] | None) -> None:
    """Refuse a quantized engine as the one to compare with where the other is a float engine.

    Args:
        planned: The nodes that were planned for each quantized type, from the manifest; None without one.
        against: The same of the engine that it is compared with.

    Raises:
        UsageError: The two were mixed up: a gate would ask float to be faster.
    """
    if planned is not None and not planned and against:
        raise UsageError(
            "ENGINE is a float engine and that of --against a quantized one: they were mixed up",
            hint="name the quantized engine first, and the float one with --against",
        )


def _described(runner: Runner) -> list[str]:
    ranks = {spec.name: "?" if spec.shape is None else len(spec.shape) for spec in runner.inputs}
    return sorted(f"{name} (rank {rank})" for name, rank in ranks.items())


def _require_same(what: str, mine: Sequence[str], theirs: Sequence[str]) -> None:
    if mine != theirs:
        raise UsageError(
            f"the two engines have different {what}: {', '.join(mine)} against {', '.join(theirs)}",
            hint="--against must be built from the float model that was quantized",
        )
