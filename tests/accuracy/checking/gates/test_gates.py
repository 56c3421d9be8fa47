"""All gates together: every module of the folder is in the order, and a report's failures are those of its gates."""

import pkgutil

import numpy as np
from onnx import TensorProto
from support.qdq import pair_model

from qdqtool.accuracy.checking import gates
from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.jobs.check import check_model
from qdqtool.samples.request import DataRequest


def test_every_gate_module_is_asked() -> None:
    modules = {info.name for info in pkgutil.iter_modules(gates.__path__)}
    assert {gate.__name__.rsplit(".", 1)[1] for gate in gates.GATES} == modules


def test_a_gate_holds_where_nothing_failed() -> None:
    held = GateResult.of(name="g", requires="r", failures=[], detail="d")
    failed = GateResult.of(name="g", requires="r", failures=iter(["a", "b"]), detail="d")
    assert (held.passed, held.failures) == (True, ())
    assert (failed.passed, failed.failures) == (False, ("a", "b"))


def test_the_failures_of_a_report_are_those_of_its_gates_in_order() -> None:
    model = pair_model(TensorProto.INT8, scale=0.5)
    options = CheckOptions(gates=Gates(min_sqnr=200, min_cosine=1.0, max_steps=0))
    data = DataRequest(input_shapes={"x": (64,)}, samples=1)
    report = check_model(pair_model(TensorProto.INT8, scale=0.25), baseline=model, data=data, options=options)
    assert not report.passed
    assert report.failures == tuple(line for gate in report.gates for line in gate.failures)
    assert len({gate.name for gate in report.gates}) == len(report.gates)
    assert np.all([gate.passed is not bool(gate.failures) for gate in report.gates])
