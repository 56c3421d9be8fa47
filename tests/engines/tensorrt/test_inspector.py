"""Reading what the engine inspector prints, against samples and a JSON Schema that was written apart from the reader.

The samples and the schema are in data/inspector, with their sources.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from qdqtool.engines.tensorrt.inspector import UnknownShapeError, read_inspector, read_layers
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor
from qdqtool.engines.tensorrt.precision import computes_in

DATA = Path(__file__).parent / "data" / "inspector"
SAMPLES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.json"))}
SCHEMA = json.loads((DATA / "schema" / "inspector.schema.json").read_text(encoding="utf-8"))


def test_tensorrt_10_with_words_for_the_format():
    quantize, conv = read_inspector(SAMPLES["10_with_formats"])
    assert (quantize.input_types, quantize.output_types) == (("float32",), ("int8",))
    assert conv == Kernel(
        name="w + w_QuantizeLinear + conv + relu",
        layer_type="CaskConvolution",
        inputs=(KernelTensor("q", "int8", (1, 16, 8, 8)),),
        constants=(KernelTensor("", "int8", None),),
        outputs=(KernelTensor("y", "float32", (1, 16, 8, 8)),),
        tactic="sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32",
        nodes=("conv", "relu"),
    )
    assert computes_in(conv) == "int8"


def test_tensorrt_10_without_a_context_tells_the_type_alone():
    quantize, conv = read_inspector(SAMPLES["10_without_a_context"])
    assert (quantize.input_types, quantize.output_types) == (("float16",), ("int8",))
    assert computes_in(conv) == "int8"


def test_dynamic_shapes_hide_the_types_and_prove_nothing():
    _, conv = read_inspector(SAMPLES["10_dynamic_shapes"])
    assert (conv.input_types, conv.weight_types) == (("unknown",), ("int8",))
    assert conv.inputs[0].shape == (None, 16, 8, 8)
    assert computes_in(conv) == "unknown"


def test_tensorrt_11_lists_constants_and_types():
    gemm, signal = read_inspector(SAMPLES["11"])
    assert gemm.input_types == gemm.weight_types == ("float8e4m3fn",)
    assert gemm.output_types == ("float16",)
    assert gemm.nodes == ("mm", "w_DequantizeLinear")
    assert computes_in(gemm) == "float8e4m3fn"
    assert (signal.inputs, signal.outputs, signal.nodes) == ((), (), ())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Row major linear FP32", "float32"),
        ("Row major linear FP16 format", "float16"),
        ("Channel major FP16 format where channel % 8 == 0", "float16"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8"),
        ("Half(64,1:8)", "float16"),
        ("Float", "float32"),
        ("BFloat16", "bfloat16"),
        ("Row major linear BOOL", "bool"),
        ("Int64", "int64"),
        ("FP8", "float8e4m3fn"),
        ("N/A due to dynamic shapes", "unknown"),
        ("FP32x", "unknown"),
    ],
)
def test_the_type_among_the_words(words: str, kind: str):
    text = SAMPLES["10_without_a_context"].replace('"Int8"', json.dumps(words))
    assert read_inspector(text)[1].input_types == (kind,)


@pytest.mark.parametrize("key", ["Datatype", "DataType"])
def test_both_spellings_of_version_11(key: str):
    kernels = read_inspector(SAMPLES["11"].replace('"Datatype"', json.dumps(key)))
    assert kernels == read_inspector(SAMPLES["11"])


def is_read(text: str) -> bool:
    try:
        read_inspector(text)
    except UnknownShapeError:
        return False
    return True


def damaged(value: Any) -> Iterator[Any]:
    """A document with one part missing or replaced, for every part."""
    for path in list(_paths(value)):
        for new in (None, 3, True, "x", "", [], {}, [3], ["x"], [{}], _GONE):
            changed = copy.deepcopy(value)
            place = changed
            for step in path[:-1]:
                place = place[step]
            if new is not _GONE:
                place[path[-1]] = new
            elif isinstance(place, dict):
                del place[path[-1]]
            yield changed


_GONE = object()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_schema_refuses_is_refused_and_nothing_else(name: str):
    valid = jsonschema.Draft202012Validator(SCHEMA).is_valid
    assert valid(json.loads(SAMPLES[name]))
    verdicts = []
    for document in damaged(json.loads(SAMPLES[name])):
        expected = valid(document)
        assert is_read(json.dumps(document)) == expected, document
        verdicts.append(expected)
    assert verdicts.count(True) > 100
    assert verdicts.count(False) > 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "Object missing required field `Layers`"),
        ('{"Layers": 3}', "Expected `array`, got `int` - at `$.Layers`"),
        ('{"Layers": ["conv + relu", "fc"]}', "2 of 2 layers are names without details"),
        (
            '{"Layers": [{"Name": "a", "LayerType": "gemm", "Inputs": [], "Outs": []}]}',
            "Object missing required field `Outputs` - at `$.Layers[0]`",
        ),
        (
            '{"Layers": [{"Name": "a", "LayerType": "g", "Outputs": [], "Inputs": [{"Name": "x", "Dimensions": []}]}]}',
            "Object missing its type: `Format/Datatype`, `Datatype` or `DataType` - at `$.Layers[0].Inputs[0]`",
        ),
        # TensorRT does not escape quotes in the names of nodes.
        ('{"Layers": [{"Name": "a "b""}]}', "JSON is malformed: expected ',' or '}' (byte 25)"),
    ],
)
def test_an_unknown_shape_says_where_it_differs(text: str, message: str):
    with pytest.raises(UnknownShapeError) as caught:
        read_inspector(text)
    assert str(caught.value) == message


def test_layers_may_be_names_without_details():
    named = json.dumps({"Layers": ["a + b", *json.loads(SAMPLES["11"])["Layers"]]})
    assert read_layers(named) == (Kernel(name="a + b", layer_type=""), *read_inspector(SAMPLES["11"]))
    with pytest.raises(UnknownShapeError, match="1 of 3 layers are names without details"):
        read_inspector(named)
