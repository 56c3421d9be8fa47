"""A result is written only if the reference loads it, or did not load the source either."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import pair_model
from support.small import conv_model, make_model

from qdqtool.accuracy.search import candidate
from qdqtool.errors import ModelError, QdqError
from qdqtool.jobs import insert as insert_job
from qdqtool.jobs import normalize as normalize_job
from qdqtool.jobs import quantize as quantize_job
from qdqtool.jobs import strip as strip_job
from qdqtool.jobs.fix import FixRequest, fix_models
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair import fix_loop
from qdqtool.linting.repair.proof import Run
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.running import loadable
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.transforms import strip as strip_module
from qdqtool.numerics.dtypes import BFLOAT16
from qdqtool.quantization.insertion import apply_plan as apply_plan_module
from qdqtool.samples.request import RandomData


def broken(model: Model) -> Model:
    """The model with a Relu of integers, which no runtime loads."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    proto.graph.node.append(helper.make_node("Cast", [proto.graph.output[0].name], ["code"], to=TensorProto.INT32))
    proto.graph.node.append(helper.make_node("Sqrt", ["code"], ["root"]))
    return Model(proto, model.path, model.payloads, model.stored_outside)


def test_a_result_that_is_not_loaded_is_refused_with_the_reason() -> None:
    source = Model(conv_model())
    with pytest.raises(ModelError, match=r"is not written.* ONNX Runtime \S+ refuses the model: .*Sqrt") as caught:
        require_loadable(broken(source), source)
    assert "\n" not in caught.value.message


def test_a_result_of_a_source_that_is_not_loaded_either_is_let_pass() -> None:
    source = broken(Model(conv_model()))
    require_loadable(source, source)


def test_a_result_of_bfloat16_is_loaded_with_its_nodes_in_float32() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": np.ones((4, 3), BFLOAT16)}
    result = Model(make_model(nodes, {"x": (2, 4)}, {"y": (2, 3)}, weights, elem_type=TensorProto.BFLOAT16))
    require_loadable(result, Model(conv_model()))
    with pytest.raises(ModelError, match=r"is not written.*Sqrt"):
        require_loadable(broken(result), Model(conv_model()))


def test_types_that_only_our_own_core_evaluates_are_let_pass() -> None:
    """ONNX Runtime has no fp4, so that it loads none of these; our own core runs their Q and DQ."""
    result = pair_model(TensorProto.FLOAT4E2M1)
    result.proto.opset_import[0].version = 23
    with pytest.raises(QdqError, match=r"QuantizeLinear|float4e2m1"):
        Session(result)
    require_loadable(result, Model(conv_model()))


def test_large_weights_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def session(model: Model) -> Session:
        seen.append(model.proto.ByteSize())
        return Session(model)

    monkeypatch.setattr(loadable, "Session", session)
    weights = {"w": np.zeros((4097, 4096), np.float32), "b": np.zeros(8, np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["b"], ["r"])]
    model = Model(make_model(nodes, {"x": (1, 4097)}, {"y": (1, 4096)}, weights))
    require_loadable(model, model)
    assert seen[0] < 1000
    with pytest.raises(ModelError, match="Sqrt"):
        require_loadable(broken(model), model)


def test_without_onnxruntime_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadable.importlib.util, "find_spec", lambda _: None)
    source = Model(conv_model())
    require_loadable(broken(source), source)


def quantize(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate, "with_metadata", lambda model, _: broken(model))
    quantize_job.quantize_model(folder / "m.onnx", RandomData(samples=2), folder / "out.onnx")


def insert(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "p.json").write_text(
        json.dumps({"schema_version": 1, "tensors": [{"tensor": "x", "format": "int8", "scale": 0.1}]})
    )
    real = apply_plan_module.apply_plan
    monkeypatch.setattr(
        insert_job, "apply_plan", lambda *given: Transformed(broken((done := real(*given)).model), done.report)
    )
    insert_job.insert_plan(folder / "m.onnx", folder / "p.json", folder / "out.onnx")


def strip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = strip_module.strip_from
    monkeypatch.setattr(
        strip_job, "strip_from", lambda model: Transformed(broken((done := real(model)).model), done.report)
    )
    strip_job.strip_model(folder / "m.onnx", folder / "out.onnx")


def normalize(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(foreign_model(), folder / "m.onnx")
    unproven(monkeypatch)
    normalize_job.normalize_model(folder / "m.onnx", folder / "out.onnx")


def fix(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(foreign_model(), folder / "m.onnx")
    unproven(monkeypatch)
    request = FixRequest(output=folder / "out.onnx", unsafe=True, policy=Policy(targets=("tensorrt",)))
    [fixed] = fix_models([folder / "m.onnx"], request).models
    raise ModelError(str(fixed.error))


def foreign_model() -> onnx.ModelProto:
    proto = pair_model(TensorProto.INT8).proto
    proto.opset_import.add(domain="com.microsoft", version=1)
    for node in proto.graph.node:
        node.domain = "com.microsoft"
    return proto


def unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no feeds be found, and every edit break the model."""
    monkeypatch.setattr(fix_loop.Prover, "run", lambda *_: Run(failure="no feeds"))
    real = fix_loop.apply_edits
    monkeypatch.setattr(fix_loop, "apply_edits", lambda *given: broken(real(*given)))


@pytest.mark.parametrize("command", [quantize, insert, strip, normalize, fix])
def test_no_command_writes_such_a_result(
    command: Callable[[Path, pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="the result is not written"):
        command(tmp_path, monkeypatch)
    assert not (tmp_path / "out.onnx").exists()
