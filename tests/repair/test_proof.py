"""A proof sees a change that the outputs hide, and says where the outputs could show none."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from qdqtool.data.request import DataRequest
from qdqtool.graph.model import Model
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.repair.proof import NOTHING_VARIES, Proof, Prover

SATURATED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,4] x) => (float[1,2] y)
<float {scale_name} = {{{scale}}}, uint8 z = {{{zero}}},
 float[4,2] w = {{900, 0, 800, 0, 900, 0, 700, 0}}, float[2] b = {{9000, 0}}>
{{
  q = QuantizeLinear (x, {scale_name}, z)
  d = DequantizeLinear (q, {scale_name}, z)
  m = MatMul (d, w)
  n = Add (m, b)
  y = Softmax (n)
}}
"""
"""The Softmax gives 1 and 0, whatever comes in."""


def network(scale: float = 0.02, zero: int = 100, scale_name: str = "s") -> Model:
    return Model(onnx.parser.parse_model(SATURATED.format(scale=scale, zero=zero, scale_name=scale_name)))


def prove(before: Model, after: Model, data: DataRequest | None = None) -> Proof:
    prover = Prover(before, data or DataRequest())
    return prover.prove((before, prover.run(before)), (after, prover.run(after)))


def test_a_change_that_a_saturated_output_hides_is_seen_where_it_was_made() -> None:
    proof = prove(network(), network(scale=0.04, scale_name="t"))
    assert proof.outputs is None
    assert not proof.holds
    assert proof.problem == "the outputs are the same, but tensor 'm', next to the change, is another one on sample 0"
    assert proof.words("4 samples") == (
        "outputs are bit-equal on 4 samples, but tensor 'm', next to the change, is another one on sample 0"
    )


def test_an_equal_change_is_proven_by_the_tensors_next_to_it() -> None:
    proof = prove(network(), network(scale_name="t"))
    assert (proof.holds, proof.places, proof.problem) == (True, 1, None)
    assert proof.words("4 samples") == "outputs and 1 tensor next to the change are bit-equal on 4 samples"


@pytest.fixture
def equal_samples(tmp_path: Path) -> DataRequest:
    np.savez(tmp_path / "d.npz", x=np.tile(np.float32([1, 1, 1, 2]), (3, 1)))
    return DataRequest(path=tmp_path / "d.npz")


def test_samples_over_which_nothing_varies_prove_nothing(equal_samples: DataRequest) -> None:
    proof = prove(network(), network(), equal_samples)
    assert (proof.holds, proof.problem) == (False, NOTHING_VARIES)


def test_one_sample_cannot_vary_and_is_believed(equal_samples: DataRequest) -> None:
    assert prove(network(), network(), DataRequest(path=equal_samples.path, samples=1)).holds


def test_an_unsafe_fix_behind_a_saturated_output_does_not_call_itself_equal() -> None:
    """uint8 codes become int8 codes of a wider scale, which TensorRT needs."""
    fixed = fix_model(network(), FixRequest(policy=Policy(targets=("tensorrt",)), unsafe=True))
    (change,) = [change for change in fixed.report.changes if change.code == "QP102"]
    assert change.label == "unsafe"
    assert "but tensor 'm', next to the change, is another one" in change.proof
    assert all(output.exact for output in fixed.report.outputs)


def test_an_equal_fix_is_refused_where_the_samples_prove_nothing(equal_samples: DataRequest) -> None:
    """uint8 codes around 128 are int8 codes around 0."""
    policy = Policy(targets=("tensorrt",))
    exact = network(zero=128)
    assert fix_model(exact, FixRequest(policy=policy)).report.changes
    done = fix_model(exact, FixRequest(policy=policy, data=equal_samples)).report
    assert not done.changes
    assert NOTHING_VARIES in {refused.reason for refused in done.refused}
    assert fix_model(exact, FixRequest(policy=policy, data=equal_samples, unsafe=True)).report.changes
