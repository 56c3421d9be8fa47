"""Fixes of constants that are broken are refused with the reason, and the rest of the model is fixed."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import assert_same_bits, attributes, carried_out, constant, descriptions, maker, node, read
from support.ort_verdict import ort_run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.linting.rules.fixes.stored import parameters, stored, wider_fixes, write_parameters
from qdqtool.models.graph.edits.edit import AddInitializer
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme


def reasons(model: onnx.ModelProto, code: str) -> set[str]:
    policy = Policy(targets=("tensorrt",), select=(code,))
    report = fix_model(Model(model), FixRequest(policy=policy, unsafe=True)).report
    assert not report.changes
    return {refused.reason for refused in report.refused}


@pytest.mark.parametrize(("shape", "axis"), [([], 0), ([], 1), ([8], 1), ([8], -2), ([2, 8], 5)], ids=str)
def test_an_axis_that_the_tensor_has_not_is_a_reason_not_to_fix(shape: list[int], axis: int):
    model = graph_model(
        [
            made("QuantizeLinear", ["x", "s", "z"], "q", axis=axis),
            made("DequantizeLinear", ["q", "s", "z"], "d", axis=axis),
            made("Identity", ["d"], "y"),
        ],
        [("x", T.FLOAT, shape)],
        [("y", T.FLOAT, shape)],
        [tensor("s", np.zeros(0)), tensor("z", np.zeros(0), T.INT8)],
    )
    assert reasons(model, "QA202") == {"its scale or zero point does not fit the shape of the data"}


def test_an_int32_weight_is_not_quantized_again():
    weight = np.arange(32).reshape(8, 4)
    model = graph_model(
        [made("DequantizeLinear", ["w", "s"], "d", axis=0), made("MatMul", ["x", "d"], "y")],
        [("x", T.FLOAT, [2, 8])],
        [("y", T.FLOAT, [2, 4])],
        [tensor("w", weight, T.INT32), tensor("s", np.full(8, 0.1))],
    )
    assert reasons(model, "QA201") == {"ONNX cannot quantize to int32"}


def unfit(reader: Callable[[RuleContext, QdqNode], object], context: RuleContext, output: str) -> str:
    """Why the constants of the node that makes a tensor are not read."""
    with pytest.raises(UnfitError) as refused:
        reader(context, maker(context, output))
    return str(refused.value)


def weight(scale: str = "float s = {0.5}", zero_point: str = "int8 z = {3}", attribute: str = "") -> RuleContext:
    """Codes [2, 3] behind a DQ and a Q."""
    names = "s, z" if zero_point else "s"
    constants = ", ".join(filter(None, (scale, zero_point)))
    return read(
        f"""
        agraph (float[2,3] x) => (float[2,3] y) <int8[2,3] w = {{1,-2,3,-4,5,-6}}, {constants}> {{
            d = DequantizeLinear {attribute} (w, {names})
            y = Add (x, d)
        }}
        """
    )


BROKEN = "its scale or zero point is not constant, or its shape is illegal"
INTEGER = "scale has type int32; legal: float32, float16, bfloat16, float8_e8m0fnu, float64"
UNFIT = "its scale or zero point does not fit the shape of the data"


@pytest.mark.parametrize(
    ("scale", "zero_point", "attribute", "reason"),
    [
        ("float s = {0.5}", "", "", None),
        ("float s = {0.5}", "int8 z = {3}", "", None),
        ("float[1] s = {0.5}", "int8 z = {3}", "", None),
        ("float s = {0.5}", "int8[1] z = {3}", "", None),
        ("float[1] s = {0.5}", "int8[1] z = {3}", "<axis = 5>", None),
        ("float[3] s = {1, 2, 3}", "int8[3] z = {3, 2, 1}", "<axis = 1>", None),
        ("float[3] s = {1, 2, 3}", "int8[3] z = {3, 2, 1}", "<axis = -1>", None),
        ("float[2] s = {1, 2}", "int8[2] z = {3, 2}", "<axis = 0>", None),
        ("float[2,1] s = {1, 2}", "int8[2,1] z = {3, 2}", "<axis = 1, block_size = 3>", None),
        ("float[3] s = {1, 2, 3}", "int8[3] z = {3, 2, 1}", "<axis = 0>", UNFIT),
        ("float[3] s = {1, 2, 3}", "int8[2] z = {3, 2}", "<axis = 1>", UNFIT),
        ("float[3] s = {1, 2, 3}", "int8 z = {3}", "<axis = 1>", UNFIT),
        ("float s = {1}", "int8[2] z = {3, 2}", "", UNFIT),
        ("float[2] s = {1, 2}", "", "<axis = 2>", UNFIT),
        ("float[2,2] s = {1, 2, 3, 4}", "", "<axis = 1, block_size = 3>", UNFIT),
        ("float[2,1,1] s = {1, 2}", "", "", BROKEN),
        ("float s = {0.5}", 'string z = {"3"}', "", BROKEN),
        ('string s = {"3"}', "int8 z = {3}", "", BROKEN),
    ],
)
def test_constants_are_read_where_they_fit_the_data(scale: str, zero_point: str, attribute: str, reason: str | None):
    context = weight(scale, zero_point, attribute)
    entry = maker(context, "d")
    if reason is not None:
        assert unfit(parameters, context, "d") == reason
        return
    found = parameters(context, entry)
    assert (found.zero_point is None) == (not zero_point)
    assert found.zero_point is None or found.zero_point.shape == found.scale.shape
    data = stored(context, entry)
    expected = ort_run(context.model.proto, np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(data.reals(), expected)


@pytest.mark.parametrize("data", ["u", "n"])
def test_one_scale_fits_data_of_any_shape(data: str):
    context = read(
        f"""
        agraph (int8[N] n) => (float[M] y) <float s = {{0.5}}> {{
            u = local.Unknown (n)
            y = DequantizeLinear ({data}, s)
        }}
        """
    )
    assert parameters(context, maker(context, "y")).scale == 0.5


@pytest.mark.parametrize("data", ["u", "n"])
def test_several_scales_fit_no_data_of_unknown_extents(data: str):
    context = read(
        f"""
        agraph (int8[2,N,3] n) => (float[M] z) <float[3] s = {{1, 2, 3}}> {{
            u = local.Unknown (n)
            y = DequantizeLinear <axis = 1> ({data}, s)
            z = Identity (y)
        }}
        """
    )
    assert unfit(parameters, context, "y") == UNFIT


@pytest.mark.parametrize("index", [1, 2])
def test_constants_that_a_caller_gives_are_not_read(index: int):
    proto = weight().model.proto
    name = "wsz"[index]
    (given,) = [each for each in proto.graph.initializer if each.name == name]
    proto.graph.initializer.remove(given)
    for inputs in ([(name, given.data_type, [])], []):
        changed = onnx.ModelProto()
        changed.CopyFrom(proto)
        changed.graph.input.extend(onnx.helper.make_tensor_value_info(*each) for each in inputs)
        context = read(changed)
        assert unfit(parameters, context, "d") == BROKEN


def pair_of(weights: str, scale: str, kept: str) -> RuleContext:
    """A float weight [2, 2] with a Q and a DQ that have scales of their own."""
    return read(
        f"""
        agraph (float[2,2] x) => (float[2,2] y)
        <float[2,2] w = {{{weights}}}, float s = {{{scale}}}, float t = {{{kept}}}, int8 z = {{0}}> {{
            q = QuantizeLinear (w, s, z)
            d = DequantizeLinear (q, t, z)
            y = Add (x, d)
        }}
        """
    )


def test_values_are_those_that_the_q_and_then_the_dq_make():
    context = pair_of("0.1, 0.26, -1, 100", "0.5", "0.25")
    data = stored(context, maker(context, "d"))

    assert data.codes().tolist() == [[0, 1], [-2, 127]]
    np.testing.assert_array_equal(data.reals(), ort_run(context.model.proto, np.zeros((2, 2), np.float32)))


def test_a_q_whose_scale_is_computed_stores_nothing():
    proto = pair_of("1, 2, 3, 4", "0.5", "0.5").model.proto
    proto.graph.node[0].input[1] = "nowhere"
    context = read(proto)

    assert unfit(stored, context, "d") == BROKEN


@pytest.mark.parametrize(
    ("kind", "data"), [("int8", "Neg (w)"), ("float", "Identity (w)"), ("double", ""), ("string", "")]
)
def test_what_is_no_stored_code_is_no_constant_of_a_fix(kind: str, data: str):
    values = '"a", "b"' if kind == "string" else "1, 2"
    moved = f"c = {data}" if data else ""
    context = read(
        f"""
        agraph () => (float[2] y) <{kind}[2] w = {{{values}}}, float s = {{0.5}}> {{
            {moved}
            y = DequantizeLinear ({"c" if data else "w"}, s)
        }}
        """
    )
    assert unfit(stored, context, "y") == "it reads no stored constant"


@pytest.mark.parametrize(
    ("scale", "attribute", "dtype"),
    [
        ("float s = {0.5}", "", np.float32),
        ("float16 s = {14336}", "", np.float16),  # the bits of 0.5
        ("float s = {0.5}", "<output_dtype = 10>", np.float16),
        ("float16 s = {14336}", "<output_dtype = 1>", np.float32),
    ],
)
def test_values_have_the_type_that_the_dq_makes(scale: str, attribute: str, dtype: type):
    context = read(
        f"agraph () => (float[2] d) <int8[2] w = {{1, -3}}, {scale}> {{ d = DequantizeLinear {attribute} (w, s) }}"
    )
    data = stored(context, maker(context, "d"))

    assert (data.reals().dtype, data.reals().tolist()) == (dtype, [0.5, -1.5])
    assert onnx.helper.tensor_dtype_to_np_dtype(data.like.data_type) == dtype
    assert tuple(data.like.dims) == data.shape == (2,)


@pytest.mark.parametrize(("name", "short"), [("w", "w"), ("w_quantized", "w"), ("_quantized", "_quantized")])
def test_a_constant_is_called_without_what_quantizers_append(name: str, short: str):
    constants = f"int8[1] {name} = {{1}}, float s = {{1}}"
    context = read(f"agraph () => (float[1] d) <{constants}> {{ d = DequantizeLinear ({name}, s) }}")

    assert stored(context, maker(context, "d")).name == short


def test_new_constants_are_named_after_the_old_ones():
    context = weight(attribute="<output_dtype = 1>")
    params = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.float32(0.25))

    def write(draft: Draft) -> None:
        write_parameters(draft, maker(context, "d"), params)

    draft = Draft(context, Namer(context.view))
    write(draft)
    fixed = carried_out(context, Fix(Offer("unsafe", ""), "", write))

    assert [edit.tensor.name for edit in draft.edits if isinstance(edit, AddInitializer)] == ["s_1", "z_1"]
    assert (constant(fixed, "d", 1), constant(fixed, "d", 2)) == (0.25, 0)
    assert attributes(fixed, "d") == {"output_dtype": T.FLOAT}


def test_a_node_without_constants_gets_new_ones():
    proto = weight().model.proto
    del proto.graph.node[0].input[1:]
    context = read(proto)
    params = QuantParams(QuantScheme(formats.get("int8"), PerTensor()), np.float32(0.25))
    fix = Fix(Offer("unsafe", ""), "", lambda draft: write_parameters(draft, maker(context, "d"), params))
    fixed = carried_out(context, fix)

    assert list(node(fixed, "d").input)[1:] == ["scale", "scale_zero_point"]


@pytest.mark.parametrize(
    ("scale", "attribute", "reason"),
    [
        ("float s = {0.5}", "<output_dtype = 99>", "type 99 is not a legal type of a tensor"),
        ("float s = {0.5}", "<output_dtype = -1>", "type -1 is not a legal type of a tensor"),
        ("float s = {0.5}", "<output_dtype = 8>", "output_dtype is object; legal: float32, float16, bfloat16"),
        ("float s = {0.5}", "<output_dtype = 11>", "output_dtype is float64; legal: float32, float16, bfloat16"),
        ("double s = {0.5}", "", "output_dtype is float64; legal: float32, float16, bfloat16"),
        ("float8e8m0 s = {126}", "", "output_dtype is float8_e8m0fnu; legal: float32, float16, bfloat16"),
        ("float8e8m0 s = {126}", "<output_dtype = 1>", None),
        ("int32 s = {1}", "<output_dtype = 1>", INTEGER),
        ("int32 s = {1}", "", INTEGER),
    ],
)
def test_types_that_nothing_is_dequantized_to_are_a_reason_not_to_fix(scale: str, attribute: str, reason: str | None):
    context = weight(scale, "", attribute)
    entry = maker(context, "d")
    if reason is None:
        assert stored(context, entry).reals().dtype == np.float32
        return
    assert unfit(stored, context, "d") == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"w": (T.INT64, [1, 2, 3, 4])}, "x has type int64; legal: float32, float16, bfloat16, int32, float64"),
        ({"w": (99, [1, 2, 3, 4])}, "type 99 is not a legal type of a tensor"),
        ({"s": (T.INT32, 1)}, INTEGER),
        ({"z": (T.FLOAT8E4M3FN, 1)}, "zero_point is 1; float8e4m3fn allows only 0"),
        ({"z": (T.FLOAT8E4M3FN, 0)}, None),
        ({"w": (T.INT32, [1, 2, 3, 4])}, None),
    ],
    ids=str,
)
def test_a_q_that_nothing_computes_is_a_reason_not_to_fix(change: dict[str, tuple[int, object]], reason: str | None):
    proto = pair_of("1, 2, 3, 4", "0.5", "0.5").model.proto
    for each in proto.graph.initializer:
        if each.name in change:
            onnx_type, values = change[each.name]
            known = onnx_type if onnx_type != 99 else T.FLOAT
            each.CopyFrom(tensor(each.name, np.reshape(values, list(each.dims)), known))
            each.data_type = onnx_type
    context = read(proto)
    if reason is None:
        assert stored(context, maker(context, "d")).reals().tolist() == [[1, 2], [3, 4]]
        return
    assert unfit(stored, context, "d") == reason


@pytest.mark.parametrize("output_type", [99, T.DOUBLE, T.STRING])
def test_the_fix_job_goes_on_where_one_constant_has_no_values(output_type: int):
    model = graph_model(
        [made("DequantizeLinear", ["b", "s"], "d", output_dtype=output_type), made("Conv", ["x", "k", "d"], "y")],
        [("x", T.FLOAT, [1, 2, 1, 1])],
        [("y", T.FLOAT, [1, 2, 1, 1])],
        [tensor("b", [1, 2], T.INT32), tensor("s", 0.5), tensor("k", np.ones((2, 2, 1, 1)))],
        23,
        11,
    )
    (reason,) = reasons(model, "QL301")
    assert "type" in reason


def text(kind: str, zero_point: str = "") -> str:
    zeros = f", {kind}[2] z = {{{zero_point}}}" if zero_point else ""
    return f"""
    agraph (float[1,2] x) => (float[1,2] y) <{kind}[2,2] w = {{33, 103}}, float[2] s = {{0.5, 2}}{zeros}> {{
        d = DequantizeLinear <axis = 1> (w, s{", z" if zeros else ""})
        y = MatMul (x, d)
    }}
    """


@pytest.mark.parametrize("zero_point", ["", "83"])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_codes_and_zero_points_are_stored_as_int8(kind: str, zero_point: str):
    """Two codes share a byte: 33 is 1 and 2, 103 is 7 and 6, 83 is 3 and 5."""
    context = read(text(kind, zero_point))
    (fix,) = wider_fixes(maker(context, "d"))
    fixed = carried_out(context, fix)

    assert fix.description == "stores the same codes as int8"
    assert constant(fixed, "d", 0).dtype == np.int8
    assert constant(fixed, "d", 0).tolist() == [[1, 2], [7, 6]]
    assert len(node(fixed, "d").input) == (3 if zero_point else 2)
    if zero_point:
        assert constant(fixed, "d", 2).tolist() == [3, 5]
        assert constant(fixed, "d", 2).dtype == np.int8
        assert node(fixed, "d").input[2] == "z_1"
    assert_same_bits(context, fixed, x=np.float32([[1, -3]]))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_other_codes_stay(kind: str):
    context = read(
        f"agraph () => (float[2] d) <{kind}[2] w = {{1, 2}}, float s = {{0.5}}> {{ d = DequantizeLinear (w, s) }}"
    )

    assert wider_fixes(maker(context, "d")) == ()


def test_a_q_stays():
    context = read(
        """
        agraph (float[2] x) => (float[2] d) <float s = {0.5}> {
            q = QuantizeLinear <output_dtype = 22> (x, s)
            d = DequantizeLinear (q, s)
        }
        """
    )
    assert wider_fixes(maker(context, "q")) == ()
    assert descriptions(wider_fixes(maker(context, "d"))) == ["stores the same codes as int8"]
