"""A proof sees a change that the outputs hide, and says where the outputs could show none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from qdqtool.errors import QdqError
from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.proof import (
    EXTREMES,
    NAN_INPUTS,
    NOT_RUN,
    NOTHING_VARIES,
    Proof,
    Prover,
    Run,
    equal_bits,
    reason,
    same_bits,
    same_values,
)
from qdqtool.linting.rules.fixes import code_operators
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

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
    assert proof.problem == "the outputs are the same, but tensor 'm', next to the change, differs on sample 0"
    assert proof.words("4 samples") == (
        "outputs are bit-equal on 4 samples, but tensor 'm', next to the change, differs on sample 0"
    )


def test_an_equal_change_is_proven_by_the_tensors_next_to_it() -> None:
    proof = prove(network(), network(scale_name="t"))
    assert (proof.holds, proof.places, proof.problem) == (True, 1, None)
    assert proof.words("4 samples") == "outputs and 1 tensor next to the change are bit-equal on 4 samples"


def test_values_that_are_moved_in_half_precision_are_the_same_values() -> None:
    def pool(before: str, kind: int) -> Model:
        text = f"""<ir_version: 10, opset_import: ["": 21]> g (float16[1,1,4] x) => (float16[1,1,3] y) {{
            f = Cast <to = {kind}> (x) m = MaxPool <kernel_shape = [2]> ({before}) y = Cast <to = 10> (m) }}"""
        return Model(onnx.parser.parse_model(text))

    assert prove(pool("f", 1), pool("x", 1)).problem is None
    assert prove(pool("x", 1), pool("f", 16)).outputs == "output 'y' differs on sample 0"


@pytest.fixture
def equal_samples(tmp_path: Path) -> DataRequest:
    np.savez(tmp_path / "d.npz", x=np.tile(np.float32([1, 1, 1, 2]), (3, 1)))
    return DataRequest(path=tmp_path / "d.npz")


@pytest.mark.parametrize("samples", [2, 3])
def test_samples_over_which_nothing_varies_prove_nothing(equal_samples: DataRequest, samples: int) -> None:
    proof = prove(network(), network(), DataRequest(path=equal_samples.path, samples=samples))
    assert (proof.holds, proof.problem) == (False, NOTHING_VARIES)


def test_one_sample_cannot_vary_and_is_believed(equal_samples: DataRequest) -> None:
    assert prove(network(), network(), DataRequest(path=equal_samples.path, samples=1)).holds


def test_an_unsafe_fix_behind_a_saturated_output_does_not_call_itself_equal() -> None:
    """uint8 codes become int8 codes of a wider scale, which TensorRT needs."""
    fixed = fix_model(network(), FixRequest(policy=Policy(targets=("tensorrt",)), unsafe=True))
    (change,) = [change for change in fixed.report.changes if change.code == "QP102"]
    assert change.label == "unsafe"
    assert "but tensor 'm', next to the change, differs on sample 0" in change.proof
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


@pytest.mark.parametrize(
    ("proof", "holds", "problem", "words"),
    [
        (Proof(None, 0), True, None, "outputs are bit-equal on S"),
        (Proof(None, 1), True, None, "outputs and 1 tensor next to the change are bit-equal on S"),
        (Proof(None, 2), True, None, "outputs and 2 tensors next to the change are bit-equal on S"),
        (Proof("o"), False, "o", None),
        (Proof(None, 1, "p"), False, "the outputs are the same, but p", "outputs are bit-equal on S, but p"),
        (
            Proof(None, 1, None, varies=False),
            False,
            NOTHING_VARIES,
            f"outputs are bit-equal on S, but {NOTHING_VARIES}",
        ),
        (
            Proof(None, 1, "p", varies=False),
            False,
            "the outputs are the same, but p",
            "outputs are bit-equal on S, but p",
        ),
    ],
)
def test_a_proof_says_what_it_proves(proof: Proof, holds: bool, problem: str | None, words: str | None) -> None:
    assert (proof.holds, proof.problem) == (holds, problem)
    if words is not None:
        assert proof.words("S") == words


F = np.float32
NAN, OTHER_NAN = np.frombuffer(b"\0\0\xc0\x7f\1\0\xc0\x7f", F)


@pytest.mark.parametrize(
    ("left", "right", "bits", "values"),
    [
        (F([1, 2]), F([1, 2]), True, True),
        (F([1, 2]), F([1, 3]), False, False),
        (F([0.0]), F([-0.0]), False, True),
        (F([NAN]), F([NAN]), True, True),
        (F([NAN]), F([OTHER_NAN]), False, True),
        (F([[1, 2]]), F([1, 2]), False, False),
        (F([]), np.zeros((0, 1), F), False, False),
        (np.array([1], np.int32), np.array([1], np.int64), False, True),
        (np.array([0], np.int32), np.array([0], np.uint32), False, True),
        (F([0]), np.array([0], np.int32), False, True),
        (F([1, NAN]), F([[1, NAN]]), False, False),
        (np.array(["a", "b"], object), np.array(["a", "b"], object), True, True),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), False, False),
    ],
)
def test_bits_and_values_are_compared(left: np.ndarray, right: np.ndarray, bits: bool, values: bool) -> None:
    first, second = [Run(({"o": F([7])}, {"o": array})) for array in (left, right)]
    assert equal_bits(left, right) is bits
    assert same_values(first, second) is values
    assert same_bits(first, second) == (None if bits else "output 'o' differs on sample 1")


RUNS = """<ir_version: 10, opset_import: ["": 21]>
g (float[1,4] x) => (float[1,4] y) { y = Relu (x) }"""


def relu() -> Model:
    return Model(onnx.parser.parse_model(RUNS))


def test_the_samples_are_named(equal_samples: DataRequest) -> None:
    assert Prover(relu(), DataRequest(samples=1)).description == "1 sample (random inputs, seed 0)"
    assert Prover(relu(), DataRequest(samples=3, seed=7)).description == "3 samples (random inputs, seed 7)"
    assert Prover(relu(), equal_samples).description == f"3 samples ({equal_samples.path})"


def test_inputs_that_cannot_be_drawn_are_a_failure_and_data_that_does_not_fit_an_error(tmp_path: Path) -> None:
    model = relu()
    model.proto.graph.input[0].CopyFrom(onnx.helper.make_tensor_sequence_value_info("x", 1, [1]))
    prover = Prover(model, DataRequest())
    assert prover.description == ""
    assert prover.run(relu()).samples == ()
    assert prover.run(relu()).failure
    with pytest.raises(QdqError):
        Prover(relu(), DataRequest(path=tmp_path / "nowhere.npz"))
    with pytest.raises(QdqError):
        Prover(relu(), DataRequest(input_shapes={"nothing": (1,)}))


def test_a_model_runs_whatever_its_nodes_are_called() -> None:
    model = Model(onnx.parser.parse_model(RUNS.replace("y = Relu (x)", "[n] a = Relu (x) [n] y = Neg (a)")))
    run = Prover(model, DataRequest(samples=2)).run(model)
    assert (len(run.samples), run.failure) == (2, None)
    assert [node.name for node in model.proto.graph.node] == ["n", "n"]


def test_a_model_that_does_not_run_says_why() -> None:
    broken = Model(onnx.parser.parse_model(RUNS.replace("Relu", "Mystery")))
    failure = Prover(relu(), DataRequest(samples=2)).run(broken).failure
    assert failure is not None
    assert "Mystery" in failure


def test_an_error_is_told_in_one_line() -> None:
    assert reason(QdqError("wrong")) == "wrong"
    assert reason(QdqError("wrong", hint="do this")) == "wrong; do this"


def test_outputs_that_differ_are_named_before_anything_else() -> None:
    other = Model(onnx.parser.parse_model(RUNS.replace("Relu", "Abs")))
    proof = prove(relu(), other)
    assert (proof.holds, proof.problem, proof.places) == (False, "output 'y' differs on sample 0", 0)


def test_a_model_without_inputs_has_nothing_to_vary() -> None:
    constant = Model(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["": 21]>
            g () => (float[2] y) <float[2] w = {1, -2}> { y = Relu (w) }"""
        )
    )
    assert prove(constant, constant, DataRequest(samples=3)).holds


HIDDEN = """<ir_version: 10, opset_import: ["": 21]>
g (float[1,4] x) => (float[1,4] y) <float s = {%s}, float zero = {0}> {
  a = Mul (x, s)
  b = Neg (a)
  c = Mul (b, zero)
  y = Abs (c)
}"""


def test_inner_tensors_that_vary_prove_what_equal_outputs_do_not() -> None:
    model = Model(onnx.parser.parse_model(HIDDEN % 2))
    same = Model(onnx.parser.parse_model((HIDDEN % 2).replace("s)", "t)").replace("float s", "float t")))
    proof = prove(model, same)
    assert (proof.holds, proof.places) == (True, 1)
    assert not prove(model, model).holds
    other = Model(onnx.parser.parse_model((HIDDEN % 3).replace("s)", "t)").replace("float s", "float t")))
    assert prove(model, other).place == "tensor 'a', next to the change, differs on sample 0"


def test_a_difference_that_no_reader_sees_is_no_fault() -> None:
    """A Relu before or after the pair: the tensor differs, and what reads it does not."""
    text = HIDDEN % 2
    moved = text.replace("a = Mul (x, s)", "r = Relu (x) a = Mul (r, s)")
    before = Model(onnx.parser.parse_model(text.replace("b = Neg (a)", "b = Relu (a)")))
    after = Model(onnx.parser.parse_model(moved.replace("b = Neg (a)", "b = Relu (a)")))
    assert prove(before, after).holds


def parsed(nodes: str, constants: str = "", opset: int = 21, outputs: str = "float[1,4] y") -> Model:
    header = f'<ir_version: 10, opset_import: ["": {opset}]>'
    return Model(onnx.parser.parse_model(f"{header} g (float[1,4] x) => ({outputs}) <{constants}> {{ {nodes} }}"))


def changed(
    nodes: str, constants: str, now: str = "float t = {3}", opset: int = 21, outputs: str = "float[1,4] y"
) -> tuple[Model, Model]:
    """Two models: the second reads ``t`` instead of ``s`` at the first place."""
    other = nodes.replace(" s)", " t)", 1)
    return parsed(nodes, constants, opset, outputs), parsed(other, f"{constants}, {now}", opset, outputs)


def test_one_output_that_varies_is_enough() -> None:
    model = parsed(
        "c = Mul (x, zero) k = Abs (c) y = Neg (x)", "float zero = {0}", outputs="float[1,4] k, float[1,4] y"
    )
    assert prove(model, model).holds


def test_one_sample_that_differs_from_the_first_is_enough(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=F([[[1, 2, 3, 4]]] * 2 + [[[1, 2, 3, 5]]]))
    assert prove(relu(), relu(), DataRequest(path=tmp_path / "d.npz")).holds


def test_inner_tensors_prove_with_two_samples_too() -> None:
    before, after = changed(
        "a = Mul (x, s) c = Mul (a, zero) y = Abs (c)", "float s = {2}, float zero = {0}", "float t = {2}"
    )
    assert prove(before, after, DataRequest(samples=2)).holds


WEIGHT = """
  d = DequantizeLinear (w, s)
  e = Transpose (d)
  m = MatMul (x, e)
  n = Add (m, b)
  h = Softmax (n)
  v = Neg (x)
"""


def test_a_changed_weight_is_seen_behind_the_operators_that_move_it() -> None:
    """The Softmax is saturated, and the Transpose of a constant is constant, so only the MatMul shows the scale."""
    constants = "int8[2,4] w = {100, 50, 70, 90, 1, 2, 3, 4}, float s = {100}, float[2] b = {90000, 0}"
    outputs = "float[1,2] h, float[1,4] v"
    proof = prove(*changed(WEIGHT, constants, "float t = {150}", outputs=outputs))
    assert proof == Proof(None, 1, "tensor 'm', next to the change, differs on sample 0")


@pytest.mark.parametrize("scale", [1e-20, 1, 1e20])
def test_differences_of_any_size_are_seen(scale: float) -> None:
    constants = f"float s = {{{scale}}}, float zero = {{0}}"
    nodes = "a = Mul (x, s) b = Neg (a) c = Mul (b, zero) d = Abs (c) y = Add (d, x)"
    assert prove(*changed(nodes, constants, f"float t = {{{scale}}}")) == Proof(None, 1)
    proof = prove(*changed(nodes, constants, f"float t = {{{scale * 1.001}}}"))
    assert proof.place == "tensor 'a', next to the change, differs on sample 0"


def test_the_sign_of_zeros_is_no_difference_of_inner_tensors() -> None:
    nodes = "z = Mul (x, zero) a = Mul (z, s) b = Neg (a) c = Abs (b) y = Add (c, x)"
    assert prove(*changed(nodes, "float s = {2}, float zero = {0}", "float t = {-2}")) == Proof(None, 1)


def test_another_shape_is_a_difference() -> None:
    nodes = "a = Reshape (x, s) b = Neg (a) y = Reshape (b, line)"
    proof = prove(*changed(nodes, "int64[2] s = {2, 2}, int64[2] line = {1, 4}", "int64[2] t = {4, 1}"))
    assert proof.place == "tensor 'a', next to the change, differs on sample 0"


@pytest.mark.parametrize(
    ("readers", "is_fault"),
    [
        ("p = Relu (a) q = Clip (a, zero)", False),
        ("p = Relu (a) q = Neg (a)", True),
        ("p = Neg (a) q = Relu (a)", True),
        ("p = Neg (a) q = Abs (a)", True),
        ("p = Relu (a) i = ArgMin (a) q = Cast <to = 1> (i)", False),
    ],
)
def test_a_difference_counts_if_any_reader_sees_it(readers: str, is_fault: bool) -> None:
    hidden = "r = Mul (p, zero) u = Mul (q, zero) v = Add (r, u) w = Abs (v) y = Sub (x, w)"
    nodes = f"m = Abs (x) n = Neg (m) a = Mul (n, s) {readers} {hidden}"
    proof = prove(*changed(nodes, "float s = {2}, float zero = {0}"))
    assert proof.holds is not is_fault
    assert proof.places == 1


def test_a_difference_that_no_operator_on_floats_reads_counts() -> None:
    nodes = "a = Mul (x, s) y = ArgMax <axis = 1> (a)"
    proof = prove(*changed(nodes, "float s = {2}", outputs="int64[1,1] y"))
    assert proof.place == "tensor 'a', next to the change, differs on sample 0"


SCAN = (
    "a = Mul (x, s) b = Scan <num_scan_inputs = 1, body = body (float[] e) => (float[] w) {{ {} }}> ({}x) y = Neg (b)"
)


def test_a_difference_counts_if_what_reads_it_cannot_be_read() -> None:
    """The body of a Scan of opset 8 cannot return its inner tensors."""
    body = "m = ReduceMean <keepdims = 0> (a) k = Mul (m, zero) w = Add (e, k)"
    constants = "float s = {2}, float zero = {0}"
    proof = prove(*changed(SCAN.format(body, ", "), constants, "float t = {3}", opset=8))
    assert proof.place == "tensor 'a', next to the change, differs on sample 0"


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_that_only_one_of_the_models_can_return_is_not_compared(turned: bool) -> None:
    """The body of a Scan of opset 8 cannot return its inner tensors, that of opset 9 can."""
    body = "u = Mul (e, {0}) z = Mul (u, zero) w = Add (z, e)"
    models = [
        parsed(
            SCAN.replace("a = Mul (x, s)", "").format(body.format(name), lengths),
            f"float {name} = {{{value}}}, float zero = {{0}}",
            opset=opset,
        )
        for opset, lengths, name, value in ((8, ", ", "s", 2), (9, "", "t", 3))
    ]
    proof = prove(*(reversed(models) if turned else models))
    assert proof == Proof(None, 1)  # that of the output of the Scan


CLIP = """<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y)
<float m = {-1}, float l = {1}, float half = {0.5}> {
    a = Clip (x, m, l)
    y = Neg (a)
}"""


@pytest.mark.parametrize(
    ("clip", "problem"),
    [
        ("b = Max (x, m) a = Min (b, l)", None),
        # Only NaN is not equal to itself.
        ("b = Clip (x, m, l) n = IsNaN (x) a = Where (n, m, b)", NAN_INPUTS),
        # Only zero has a quotient with itself that is NaN; half of the smallest subnormal number is zero.
        ("b = Clip (x, m, l) t = Div (b, b) i = IsNaN (t) f = Cast <to = 1> (i) a = Add (b, f)", EXTREMES),
        ("b = Clip (x, m, l) h = Mul (b, half) a = Add (h, h)", EXTREMES),
        # The sum of opposite infinities is NaN, and twice the largest number is infinite.
        (
            "b = Clip (x, m, l) s = ReduceMax (x) t = ReduceMin (x) u = Add (s, t) n = IsNaN (u) a = Where (n, m, b)",
            EXTREMES,
        ),
        ("b = Clip (x, m, l) t = Add (x, x) i = IsInf (t) j = IsInf (x) k = Xor (i, j) a = Where (k, m, b)", EXTREMES),
    ],
)
def test_a_difference_on_special_inputs_alone_is_seen(clip: str, problem: str | None) -> None:
    changed_clip = CLIP.replace("a = Clip (x, m, l)", clip)
    proof = prove(*(Model(onnx.parser.parse_model(text)) for text in (CLIP, changed_clip)))
    assert (proof.outputs, proof.problem) == (None, problem)


NARROW = """<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y)
<float s = {0.1}, int8 z = {0}, int8 low = {-7}, int8 high = {7}> {
    q = QuantizeLinear (x, s, z)
    c = Clip (q, low, high)
    d = DequantizeLinear (c, s, z)
    y = Neg (d)
}"""


@pytest.mark.parametrize(
    ("is_open", "varies", "refusal"), [(True, True, []), (False, True, [NAN_INPUTS]), (True, False, [NOTHING_VARIES])]
)
def test_only_a_fix_that_may_change_nan_is_safe_although_nan_changes(
    is_open: bool, varies: bool, refusal: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_operators, "CLIPPED", replace(code_operators.CLIPPED, is_open_for_nan=is_open))
    np.savez(
        tmp_path / "d.npz",
        x=np.float32([[0.1, 0.2, 0.3, 0.4], [0.2, 0.3, 0.4, 0.5] if varies else [0.1, 0.2, 0.3, 0.4]]),
    )
    data = DataRequest(path=tmp_path / "d.npz")
    model = Model(onnx.parser.parse_model(NARROW))
    done = fix_model(model, FixRequest(policy=Policy(targets=("tensorrt",), select=("QS007",)), data=data)).report
    assert {each.reason for each in done.refused} == set(refusal)
    assert [each.label for each in done.changes] == ["safe"] * (not refusal)


BEFORE_RELU = """<ir_version: 10, opset_import: ["": 21]> g (float[1,2] x) => (float[1,2] y)
<float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,-2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
    xq = QuantizeLinear (x, s, z)
    xd = DequantizeLinear (xq, s, z)
    wd = DequantizeLinear <axis = 1> (w, ws, wz)
    m = MatMul (xd, wd)
    q = QuantizeLinear (m, s, z)
    d = DequantizeLinear (q, s, z)
    r = Relu (d)
    y = Neg (r)
}"""


@pytest.mark.parametrize(("product", "is_safe"), [("MatMul (xd, wd)", True), ("MatMul (x, wd)", False)])
def test_a_pair_goes_behind_a_relu_as_safe_only_where_no_input_shows_it(product: str, is_safe: bool) -> None:
    """A NaN that reaches the pair gets a negative code, which the Relu no longer removes."""
    model = Model(onnx.parser.parse_model(BEFORE_RELU.replace("MatMul (xd, wd)", product)))
    policy = Policy(targets=("tensorrt",), select=("QL305",))
    done = fix_model(model, FixRequest(policy=policy)).report
    assert [each.label for each in done.changes] == ["safe"] * is_safe
    assert [each.reason for each in done.refused] == [EXTREMES] * (not is_safe)
    (change,) = fix_model(model, FixRequest(policy=policy, unsafe=True)).report.changes
    assert (change.label, EXTREMES in change.proof) == ("safe" if is_safe else "unsafe", not is_safe)


@pytest.mark.parametrize(("taken", "problem"), [([False, False], NOT_RUN), ([False, True], None)])
def test_code_that_no_sample_ran_is_not_proven(taken: list[bool], problem: str | None, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.float32([[1, 2], [3, 4]]), c=np.array(taken))
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x, bool c) => (float[2] y) <float k = {2}, float same = {2}> {
        y = If (c) <
            then_branch = t () => (float[2] u) { u = Mul (x, k) },
            else_branch = e () => (float[2] v) { v = Neg (x) }
        >
    }"""
    before, after = (Model(onnx.parser.parse_model(each)) for each in (text, text.replace("(x, k)", "(x, same)")))
    proof = prove(before, after, DataRequest(path=tmp_path / "d.npz"))
    assert (proof.outputs, proof.problem) == (None, problem)
