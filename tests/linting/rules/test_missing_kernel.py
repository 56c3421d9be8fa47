"""QT402: the types of outputs for which TensorRT for RTX has no kernel, on every GPU or on Turing."""

import pytest
from onnx import TensorProto as T
from onnx import helper
from support.corpus._case import graph_model
from support.one_rule import messages
from support.onnx_cases import backend_cases
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.missing_kernel import refusal
from qdqtool.linting.rules.support.words import Wrong
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

OPERATORS = {"MatMul": "2, 2", "Gemm": "2, 2", "Conv": "2, 2, 1, 1", "ConvTranspose": "2, 2, 1, 1", "Add": "2, 2"}
KINDS = {"float": "float32", "float16": "float16", "bfloat16": "bfloat16"}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capabilities", [(), (75,), (86,), (75, 86)])
def test_layers(capabilities: tuple[int, ...], kind: str, operator: str):
    shape = OPERATORS[operator]
    model = f"agraph ({kind}[{shape}] x, {kind}[{shape}] w) => ({kind}[{shape}] y) {{ y = {operator} (x, w) }}"

    told = f"{{}} has no {operator} with {KINDS[kind]} output"
    expected = []
    if operator == "ConvTranspose" and kind == "bfloat16":
        expected = [told.format("TensorRT for RTX")]
    elif 75 in capabilities and operator != "Add" and (kind == "bfloat16" or (kind, operator) in PRODUCTS_OF_FLOATS):
        expected = [told.format("compute capability 7.5")]
    assert messages("QT402", model, "tensorrt-rtx", capabilities) == expected


PRODUCTS_OF_FLOATS = {("float", "MatMul"), ("float", "Gemm")}


def test_an_output_of_unknown_type_is_not_judged():
    model = (
        "agraph (float[2,2] x) => (float[2,2] y) { t = com.microsoft.Foo (x) u = MatMul (t, t) y = Cast <to = 1> (u) }"
    )
    assert messages("QT402", model, "tensorrt-rtx", (75,)) == []


@pytest.mark.parametrize(
    ("node", "kinds"),
    [
        ("HardSwish (x)", {"bfloat16"}),
        ("LpNormalization (x)", {"bfloat16"}),
        ("LpPool <kernel_shape = [1]> (x)", {"bfloat16"}),
        ("MeanVarianceNormalization <axes = [0]> (x)", {"float16", "bfloat16"}),
        ("Mish (x)", {"bfloat16"}),
        ("HardSigmoid (x)", set()),
    ],
)
def test_operators_without_weights(node: str, kinds: set[str]):
    operator = node.split(maxsplit=1)[0]
    for kind in ("float", "float16", "bfloat16"):
        model = f"agraph ({kind}[2,2,2] x) => ({kind}[2,2,2] y) {{ y = {node} }}"
        told = [f"TensorRT for RTX has no {operator} with {kind} output"] if kind in kinds else []
        assert messages("QT402", model, "tensorrt-rtx") == told
        assert messages("QT402", model, "tensorrt") == []


@pytest.mark.parametrize(
    ("operator", "gates", "lengths", "kind", "told"),
    [
        ("LSTM", 4, ", n", "float16", "TensorRT for RTX has no LSTM with float16 output and sequence_lens"),
        ("RNN", 1, ", n", "bfloat16", "TensorRT for RTX has no RNN with bfloat16 output and sequence_lens"),
        ("LSTM", 4, ", n", "float", None),
        ("LSTM", 4, "", "bfloat16", None),
        ("LSTM", 4, ", , h", "float16", None),
        ("GRU", 3, "", "bfloat16", "TensorRT for RTX has no GRU with bfloat16 output"),
        ("GRU", 3, "", "float16", None),
    ],
)
def test_recurrent_layers(operator: str, gates: int, lengths: str, kind: str, told: str | None):
    model = f"""agraph ({kind}[3,1,4] x, {kind}[1,{4 * gates},4] w, int32[1] n, {kind}[1,1,4] h)
        => ({kind}[3,1,1,4] y) {{ y = {operator} <hidden_size = 4> (x, w, w, {lengths}) }}"""
    assert messages("QT402", model, "tensorrt-rtx") == ([told] if told else [])


Extents = list[int | str] | None


@pytest.mark.builder
def test_the_examples_of_onnx_are_refused_and_built_as_we_say(oracle: TrtOracle):
    judge = targets.get("tensorrt-rtx")
    wrong = {}
    for name, model in ((case.name, case.model) for case in backend_cases("Attention")):
        said = [each.found for each in rules.get("QT402").run(RuleContext(Model(model)), judge)]
        verdict = oracle.judge(model)
        if verdict.accepted == bool(said):
            wrong[name] = (verdict.stage, said)

    assert wrong == {}


def why(
    *shapes: Extents,
    kind: int = T.FLOAT16,
    operands: str = "q k v",
    output: int | None = None,
    outputs: str = "y",
    makers: dict[str, str] | None = None,
    **attributes: object,
) -> Wrong | None:
    """Why a node is refused.

    Args:
        shapes: Of queries, keys and values; those that are not given are the last one that is.
        kind: The type of all three.
        operands: Names of the inputs, ``-`` for one that is left out.
        output: The declared type of the output; None leaves it to shape inference.
        outputs: Names of the outputs.
        makers: The operator in front of an operand, by the operand's name.
        attributes: Of the node.
    """
    nodes = []
    read = [name.replace("-", "") for name in operands.split()]
    for name, op_type in (makers or {}).items():
        more = {"to": kind} if op_type == "Cast" else {}
        nodes.append(
            helper.make_node(op_type, [name, *(["s"] if "Linear" in op_type else [])], [f"{name}_made"], **more)
        )
        read[read.index(name)] = f"{name}_made"
    nodes.append(helper.make_node("Attention", read, outputs.split(), **attributes))
    inputs = [
        (name, kind, shapes[min(at, len(shapes) - 1)]) for at, name in enumerate(["q", "k", "v", "m", "pk", "pv"])
    ]
    scale = helper.make_tensor("s", T.FLOAT, [], [0.5])
    model = graph_model(nodes, inputs, [], [scale], 23, 11)
    model.graph.output.add(name="y")
    if output is not None:
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", output, None))
    context = RuleContext(Model(model))
    return refusal(context, context.nodes[-1])


IMAGE: Extents = [2, 4, 16, 64]
FLAT: Extents = [2, 16, 256]
HEADS = {"q_num_heads": 4, "kv_num_heads": 4}


def test_the_plainest_attention_is_taken():
    assert why(IMAGE) is None


@pytest.mark.parametrize(
    ("more", "found", "expected"),
    [
        ({"outputs": "y pk2 pv2"}, "3 outputs", "one output"),
        ({"outputs": "y pk2"}, "2 outputs", "one output"),
        ({"softcap": 2.0}, "softcap", "no softcap"),
        ({"softmax_precision": T.FLOAT}, "softmax_precision", "no softmax_precision"),
        ({"operands": "q k v - pk pv"}, "past keys", "past keys and values that a Concat joins in front of it"),
        ({"operands": "q k v - pk"}, "past keys", "past keys and values that a Concat joins in front of it"),
        ({"operands": "q k v m", "is_causal": 1}, "a mask and is_causal", "only one of the two, such as a causal mask"),
        ({"kind": T.FLOAT}, "float32 output", "float16"),
        ({"kind": T.FLOAT16, "output": T.FLOAT}, "float32 output", "float16"),
    ],
)
def test_what_no_kernel_reads(more: dict[str, object], found: str, expected: str):
    assert why(IMAGE, **more) == Wrong(found, expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "more",
    [
        {"softcap": 0.0},
        {"is_causal": 1},
        {"operands": "q k v m"},
        {"operands": "q k v m", "is_causal": 0},
        {"operands": "q k v - - -", "is_causal": 1},
        {"kind": T.BFLOAT16},
        {"scale": 0.5},
    ],
)
def test_what_the_kernels_read(more: dict[str, object]):
    assert why(IMAGE, **more) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "values", "refused"), [(64, 64, False), (64, 32, True), (32, 64, True), ("n", 64, False), (64, "n", False)]
)
def test_heads_of_keys_and_values_are_of_one_size(keys: int | str, values: int | str, refused: bool):
    expected = Wrong(f"keys of {keys} elements and values of {values}", "keys and values of one size")

    assert why(IMAGE, [2, 4, 16, keys], [2, 4, 16, values]) == (expected if refused else None)


@pytest.mark.parametrize("odd", [None, []])
def test_keys_and_values_without_extents_are_not_compared(odd: Extents):
    assert why(IMAGE, odd, IMAGE, output=T.FLOAT16) is None
    assert why(IMAGE, IMAGE, odd, output=T.FLOAT16) is None


@pytest.mark.parametrize(
    ("head", "refused"), [(8, True), (9, False), (256, False), (257, True), ("n", False), (64, False)]
)
def test_heads_fit_the_fused_kernel(head: int | str, refused: bool):
    expected = Wrong(f"heads of {head} elements", "heads of 9 to 256") if refused else None

    assert why([2, 4, 16, head]) == expected
    if isinstance(head, int):
        # Behind a Cast, attention of rank 3 is not computed as separate layers.
        assert why([2, 16, 4 * head], makers={"q": "Cast"}, **HEADS) == expected


@pytest.mark.parametrize("shape", [None, [], [2, 16, 2048]])
def test_heads_of_an_unknown_size_are_not_judged(shape: Extents):
    assert why(shape, output=T.FLOAT16, is_causal=1) is None


@pytest.mark.parametrize("shape", [None, [], [1], [2], [1, 64]])
def test_queries_that_are_no_attention_are_judged_by_their_type(shape: Extents):
    one_query = shape == [1, 64]

    assert why(shape, output=T.FLOAT) == (None if one_query else Wrong("float32 output", "float16"))


@pytest.mark.parametrize(
    ("shape", "attributes", "found"),
    [
        ([1, 3, 1, 64], {}, "one query of 3 heads in 1 batches"),
        ([1, 4, 1, 64], {}, None),
        ([2, 2, 1, 64], {}, None),
        ([3, 1, 1, 64], {}, "one query of 1 heads in 3 batches"),
        (["n", 1, 1, 64], {}, None),
        ([1, "n", 1, 64], {}, None),
        ([1, 3, 2, 64], {}, "float32 output"),
        ([1, 1, 64], {"q_num_heads": 2, "kv_num_heads": 2}, "one query of 2 heads in 1 batches"),
        ([2, 1, 64], {"q_num_heads": 2, "kv_num_heads": 2}, None),
        ([5, 1, 64], {}, "one query of 0 heads in 5 batches"),
    ],
)
def test_one_query_is_taken_with_enough_heads_in_any_type(
    shape: Extents, attributes: dict[str, int], found: str | None
):
    refused = why(shape, kind=T.FLOAT, output=T.FLOAT, **attributes)

    assert (refused.found if refused is not None else None) == found
    if refused is not None and found != "float32 output":
        assert refused.expected == "4 heads over all batches"


@pytest.mark.parametrize(
    ("more", "taken"),
    [
        (HEADS, True),
        ({"q_num_heads": 4, "kv_num_heads": 2}, False),
        ({**HEADS, "is_causal": 1}, False),
        ({**HEADS, "operands": "q k v m"}, False),
        ({**HEADS, "makers": {"q": "Relu"}}, True),
        ({**HEADS, "makers": {"q": "Cast"}}, False),
        ({**HEADS, "makers": {"v": "Cast"}}, False),
        ({**HEADS, "makers": {"q": "Relu", "k": "DequantizeLinear"}}, False),
        ({**HEADS, "makers": {"k": "QuantizeLinear"}}, False),
    ],
)
def test_attention_of_rank_3_is_computed_in_float_where_nothing_is_asked_of_it(more: dict[str, object], taken: bool):
    refused = why(FLAT, kind=T.FLOAT, output=T.FLOAT, **more)  # type: ignore[arg-type]

    assert refused == (None if taken else Wrong("float32 output", "float16"))


def test_attention_of_an_unknown_type_is_not_judged():
    assert why(IMAGE, kind=T.UNDEFINED) is None
    assert why([2, 4, 16, 300], makers={"q": "Unknown"}) is None
