"""The gate on NaN and infinities in saved outputs: only those that the reference does not have fail."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from support.small import make_model

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model

NAN, INF = float("nan"), float("inf")


def finite_gate(folder: Path, **saved: list[float]) -> GateResult | None:
    """Judge outputs for the inputs -1 and 1, of which `logs` is NaN and 0 and `signs` 1 and -1."""
    nodes = [helper.make_node("Log", ["x"], ["logs"]), helper.make_node("Neg", ["x"], ["signs"])]
    model = make_model(nodes, {"x": ("n",)}, {"logs": ("n",), "signs": ("n",)}, {})
    np.savez(folder / "data.npz", x=np.float32([-1, 1]))
    np.savez(folder / "o.npz", **{name: np.float32(values) for name, values in saved.items()})
    options = CheckOptions(outputs=folder / "o.npz") if saved else CheckOptions()
    report = check_model(Model(model), data=folder / "data.npz", options=options)
    return next((gate for gate in report.gates if gate.name == "outputs-finite"), None)


@pytest.mark.parametrize(
    ("logs", "signs", "failures"),
    [
        ([NAN, 0], [1, -1], []),
        ([5, 0], [1, -1], []),
        ([INF, 0], [1, -1], ["logs"]),
        ([NAN, NAN], [1, -1], ["logs"]),
        ([NAN, 0], [1, INF], ["signs"]),
        ([0, NAN], [NAN, -1], ["logs", "signs"]),
    ],
)
def test_only_what_the_reference_does_not_have_fails(
    logs: list[float], signs: list[float], failures: list[str], tmp_path: Path
) -> None:
    gate = finite_gate(tmp_path, logs=logs, signs=signs)
    counts = {"logs": sum(not np.isfinite(each) for each in logs), "signs": 1}
    assert gate.failures == tuple(
        f"saved output '{name}' has {counts[name]} NaN or infinite elements" for name in failures
    )
    assert gate.detail == (f"{len(failures)} of 2 outputs have them" if failures else "2 outputs")


def test_without_saved_outputs_there_is_no_such_gate(tmp_path: Path) -> None:
    assert finite_gate(tmp_path) is None
