"""QT416: what TensorRT takes of its own operators, by a table of what was measured and by the parser and builder.

A model has a finding with effect ``refused``, of whatever rule, exactly when TensorRT for RTX refuses it.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.one_rule import findings
from support.qdq import constant
from support.trt_verdict import TrtOracle

from qdqtool.linting import rules
from qdqtool.linting.rules import RuleContext
from qdqtool.models import targets
from qdqtool.models.graph.model import Model

EXAMPLES = int(os.environ.get("QDQTOOL_EXAMPLES", "156"))
"""Random models, of all operators together."""

FLOATS = {"float": T.FLOAT, "float16": T.FLOAT16, "bfloat16": T.BFLOAT16, "double": T.DOUBLE, "int32": T.INT32}
FP8, FP4, INT8, INT4, UINT8 = T.FLOAT8E4M3FN, T.FLOAT4E2M1, T.INT8, T.INT4, T.UINT8

Dims = Sequence[int | str]


@dataclass(frozen=True)
class Case:
    """A model, and the text that names it."""

    text: str
    stored: tuple[onnx.TensorProto, ...] = ()

    def __str__(self) -> str:
        constants = (f"{T.DataType.Name(each.data_type).lower()}{[*each.dims]} {each.name}" for each in self.stored)
        return " ".join((*self.text.split(), *constants))

    @property
    def model(self) -> onnx.ModelProto:
        """The model, with its constants."""
        made = onnx.parser.parse_model(self.text)
        made.graph.initializer.extend(self.stored)
        return made


def case(nodes: str, data: str, *stored: onnx.TensorProto, inputs: str = "", opset: int = 23) -> Case:
    """A model of nodes that read ``x`` and make ``y``."""
    header = f'<ir_version: 11, opset_import: ["": {opset}, "trt": 1, "other": 1]>'
    return Case(f"{header} g ({data} x{inputs}) => (float[] out) {{ {nodes}  out = Cast <to = 1> (y) }}", stored)


def tensor(name: str, shape: Dims, kind: int = T.FLOAT, value: float = 2) -> onnx.TensorProto:
    return constant(name, np.full(tuple(shape), value), kind)


def written(**attributes: object) -> str:
    words = [f"{name} = {value}" for name, value in attributes.items() if value is not None]
    return f"<{', '.join(words)}>" if words else ""


def mx(
    data: str, attributes: str = "<axis = -1, block_size = 32>", *, back: str | None = None, reads: str = "x"
) -> Case:
    """MXFP8 at computed scales; ``back`` are the attributes of its DQ."""
    return case(
        f"""q, s = trt.TRT_MXFP8DynamicQuantize {attributes} ({reads})
        y = trt.TRT_MXFP8DequantizeLinear {attributes if back is None else back} (q, s)""",
        data,
        *([tensor("c", ())] if "c" in reads else []),
    )


def fp4(
    data: str, attributes: str = "<axis = -1, block_size = 16>", *, scale: onnx.TensorProto | None = None, **more: str
) -> Case:
    """NVFP4 at computed block scales."""
    made = more.get("made", "")
    axis = next((part.split("=")[1].strip(" >") for part in attributes.split(",") if "axis" in part), "1")
    stored = [] if made.startswith("s = Constant") or "inputs" in more else [scale or tensor("s", (), value=0.5)]
    return case(
        f"""{made} q, b = trt.TRT_FP4DynamicQuantize {attributes} ({more.get("reads", "x, s")})
        bd = DequantizeLinear (b, s)
        y = DequantizeLinear <axis = {axis}, block_size = 16> (q, bd)""",
        data,
        *stored,
        inputs=more.get("inputs", ""),
    )


def dynamic(
    blocks: Dims | None, data: str, kinds: str = "output_type = 17", *, reads: str = "x", made: int | None = None
) -> Case:
    """Codes at computed scales of blocks of any number of dimensions."""
    shape = "" if blocks is None else f"block_shape = [{','.join(map(str, blocks))}]"
    quantize = ", ".join(filter(None, (shape, kinds)))
    dequantize = ", ".join(filter(None, (shape, f"output_dtype = {made}" if made else "")))
    return case(
        f"""q, s = trt.TRT_DynamicQuantize {f"<{quantize}>" if quantize else ""} ({reads})
        y = trt.TRT_BlockDequantize {f"<{dequantize}>" if dequantize else ""} (q, s)""",
        data,
        *([tensor("c", ())] if "c" in reads else []),
    )


def blocks(
    shape: Dims | None, data: str, scales: Dims, kind: int | None = None, made: int | None = None, scale: int = T.FLOAT
) -> Case:
    """Codes at given scales of blocks of any number of dimensions."""
    given = list(shape) if shape is not None else None
    return case(
        f"""q = trt.TRT_BlockQuantize {written(block_shape=given, output_dtype=kind)} (x, s)
        y = trt.TRT_BlockDequantize {written(block_shape=given, output_dtype=made)} (q, s)""",
        data,
        tensor("s", scales, scale),
    )


def static(data: str, scales: Dims, kind: int = UINT8, value: float = 127, **attributes: int | None) -> Case:
    """MXFP8 at given scales."""
    both = {name: attributes.get(name) for name in ("axis", "block_size")}
    return case(
        f"""q = trt.TRT_MXFP8QuantizeLinear {written(**both, output_dtype=attributes.get("code"))} (x, s)
        y = trt.TRT_MXFP8DequantizeLinear {written(**both, output_dtype=attributes.get("made"))} (q, s)""",
        data,
        tensor("s", scales, kind, value),
    )


def pair(
    name: str,
    scales: Dims = (),
    *,
    data: str = "float[2,64]",
    domain: str = "trt.",
    value: float = 0.5,
    opset: int = 21,
) -> Case:
    """A Q and a DQ of one name."""
    return case(
        f"""q = {domain}{name}QuantizeLinear (x, s)
        y = {domain}{name}DequantizeLinear (q, s)""",
        data,
        tensor("s", scales, value=value),
        opset=opset,
    )


def weight(operator: str, kind: int, scales: Dims = (), scale: int = T.FLOAT, attributes: str = "") -> Case:
    """A DQ of stored codes."""
    return case(
        f"w = trt.{operator} {attributes} (codes, s)  v = Cast <to = 1> (w)  y = Add (x, v)",
        "float[2,64]",
        tensor("codes", (2, 64), kind, 1),
        tensor("s", scales, scale),
    )


MX_DQ = "TRT_MXFP8DequantizeLinear"
NAMED = ("TRT_FP8DequantizeLinear", "TRT_INT4DequantizeLinear", "DequantizeLinear")

TAKEN = [
    *(pair(name) for name in ("TRT_FP8", "TRT_INT4", "")),
    pair("TRT_FP8", domain=""),
    pair("TRT_FP8", domain="other."),
    pair("TRT_FP8", opset=11),
    pair("TRT_FP8", (2,), opset=11),
    pair("TRT_FP8", (2, 2)),
    case(
        "q = trt.TRT_FP8QuantizeLinear (x, s)  y = trt.TRT_INT4DequantizeLinear (q, s)", "float[2,64]", tensor("s", ())
    ),
    case("q = trt.TRT_FP8QuantizeLinear (x, s)  y = DequantizeLinear (q, s)", "float[2,64]", tensor("s", ())),
    *(weight(operator, kind) for operator in NAMED for kind in (FP8, INT8, INT4)),
    mx("float[2,64]"),
    mx("float[2,64]", ""),
    mx("float[2,64]", "<axis = 1>"),
    mx("float[64,2]", "<axis = 0, block_size = 32>"),
    mx("float[64,2]", '<axis = "read as 0">'),
    mx("float[2,3,64]"),
    mx("float[2,32,3]", "<axis = 1, block_size = 32>"),
    mx("float[N,64]"),
    mx("float16[2,64]"),
    mx("float16[2,64]", back="<axis = -1, output_dtype = 10>"),
    mx("bfloat16[2,64]"),
    mx("double[2,64]"),
    fp4("float[2,64]"),
    fp4("float[2,64]", ""),
    fp4("float[2,64]", "<axis = -1, block_size = 0, scale_type = 17>"),
    fp4("float[2,16]"),
    fp4("float[64,2]", "<axis = 0, block_size = 16>"),
    fp4("float[2,3,64]"),
    fp4("float[2,32,4]", "<axis = 1, block_size = 16>"),
    fp4("float[N,64]"),
    fp4("float16[2,64]"),
    fp4("float16[2,64]", scale=tensor("s", (), T.FLOAT16)),
    fp4("bfloat16[2,64]", scale=tensor("s", (1,), T.BFLOAT16)),
    fp4("double[2,64]", scale=tensor("s", (), T.DOUBLE)),
    fp4("float[2,64]", scale=tensor("s", (1,))),
    *(fp4("float[2,64]", scale=tensor("s", (), value=value)) for value in (-0.5, 0)),
    fp4("float[2,64]", made="s = Constant <value_float = 0.1> ()"),
    fp4("float[2,64]", made="s = Constant <value = float {0.1}> ()"),
    fp4("float[2,64]", reads="x, s, s"),
    *(
        dynamic((16, 16), data)
        for data in ("float[64,64]", "float[33,33]", "float16[64,64]", "double[64,64]", "float[N,64]")
    ),
    dynamic((16, 16), "float[64,64]", "output_type = 17, scale_type = 1", made=T.FLOAT16),
    *(dynamic(shape, "float[256,256]") for shape in ((128, 128), (128, 64), (128, -1), (-1, 16), (2, 2))),
    dynamic((1, 16), "float[2,64]"),
    dynamic((16, 1), "float[64,2]"),
    dynamic((1, 1, 16), "float[2,2,64]"),
    dynamic((1, 16, 1), "float[2,64,2]"),
    dynamic((1, 128, 128), "float[2,256,256]"),
    dynamic((1, 1, 16, 16), "float[1,1,64,64]"),
    dynamic((1, 1, 1, 16, 16), "float[1,1,1,64,64]"),
    blocks((1, 32), "float[2,64]", (2, 2), FP8, T.FLOAT),
    blocks((1, 32), "float[2,64]", (2, 2)),
    blocks((1, 32), "float[2,64]", (2, 2), INT8),
    blocks((2, 32), "float[2,64]", (1, 2)),
    blocks((1, -1), "float[2,64]", (2, 1)),
    blocks((1, 48), "float[2,64]", (2, 2)),
    blocks((1, 1), "float[2,2]", (2, 2)),
    blocks((2, 2, 32), "float[2,2,64]", (1, 1, 2)),
    blocks((1, 32), "double[2,64]", (2, 2), scale=T.DOUBLE),
    *(blocks((1, 32), f"{name}[2,64]", (2, 2), scale=kind) for name, kind in list(FLOATS.items())[:3]),
    *(blocks((1, 32), "float16[2,64]", (2, 2), FP8, made) for made in (T.FLOAT, T.FLOAT16, T.BFLOAT16)),
    *(blocks((1, 32), "float[2,64]", (2, 2), INT8, made, T.FLOAT16) for made in (None, T.FLOAT, T.FLOAT16)),
    case(
        """q = trt.TRT_BlockQuantize <block_shape = [1,32]> (x, s)
        y = trt.TRT_BlockDequantize <block_shape = [1,32]> (q, s)""",
        "float[2,64]",
        inputs=", float[2,2] s",
    ),
    *(weight("TRT_BlockDequantize", kind, (2, 2), attributes="<block_shape = [1,32]>") for kind in (FP8, INT8, FP4)),
    *(static("float[2,64]", scales, axis=-1) for scales in ((2, 2), (2, 4), (), (1,))),
    static("float[2,64]", (2, 2)),
    static("float[2,64]", (2, 2), T.FLOAT, 2, axis=-1),
    static("float[2,64]", (2,), axis=0),
    static("float[64]", (64,), axis=0),
    static("float[64]", (), axis=5),
    static("float", ()),
    static("float[2,3,64,4]", (2, 3, 2, 4), axis=2),
    static("float[2,64]", (2, 2), axis=-1, made=T.FLOAT16),
    static("float16[2,64]", (2, 2), T.FLOAT16, 2, axis=-1, made=T.FLOAT16),
    *(static("float[2,64]", (2, 2), T.FLOAT, 2, axis=-1, code=code) for code in (FP8, INT8, INT4, FP4)),
    static("float[2,64]", (2, 2), T.BFLOAT16, 2, axis=-1, code=INT8),
    *(weight(MX_DQ, kind, (2, 2), UINT8, "<axis = -1>") for kind in (FP8, FP4)),
    *(weight(MX_DQ, kind, (2, 2), T.FLOAT, "<axis = -1>") for kind in (FP8, INT8, INT4, FP4)),
    weight(MX_DQ, FP4, (2, 2), T.FLOAT16, "<axis = -1, output_dtype = 10>"),
    case(
        "q, e = trt.TRT_MXFP8DynamicQuantize (x)  s = Identity (e)  y = trt.TRT_MXFP8DequantizeLinear (q, s)",
        "float[2,64]",
    ),
    # A name that another node has is refused for what the parser makes of Q and DQ only.
    case(
        "[a] r = Relu (x)  [a] q, s = trt.TRT_MXFP8DynamicQuantize (r)  [b] y = trt.TRT_MXFP8DequantizeLinear (q, s)",
        "float[2,64]",
    ),
]

REFUSED = [
    pair("TRT_INT8"),
    pair("TRT_INT4", data="float[3,5]"),
    pair("TRT_FP8", value=-0.1),
    case("y = trt.TRT_FP4QDQ (x)", "float[2,64]"),
    *(weight(operator, kind) for operator in NAMED for kind in (UINT8, T.FLOAT)),
    case("[a] q = trt.TRT_FP8QuantizeLinear (x, s)  [a] y = DequantizeLinear (q, s)", "float[2,64]", tensor("s", ())),
    case("[a] q, s = trt.TRT_MXFP8DynamicQuantize (x)  [a] y = trt.TRT_MXFP8DequantizeLinear (q, s)", "float[2,64]"),
    *(mx("float[2,64]", f"<axis = -1, block_size = {size}>") for size in (16, 0, 64)),
    mx("float[2,48]"),
    mx("float[2,N]"),
    *(mx(f"float[{shape}]") for shape in ("64", "1,2,3,64")),
    mx("float[32,2,3]", "<axis = 0, block_size = 32>"),
    mx("float[2,64]", "<axis = 5>", back="<axis = -1>"),
    mx("float[2,64]", reads="x, c"),
    mx("int32[2,64]"),
    # With the axis that is left out, blocks along another axis.
    mx("float[1,N,64]", ""),
    case(
        "q = trt.TRT_MXFP8DynamicQuantize (x)  y = trt.TRT_MXFP8DequantizeLinear (q, s)",
        "float[2,64]",
        tensor("s", (2, 2), UINT8),
    ),
    fp4("float[2,64]", "<axis = -1, block_size = 32>"),
    fp4("float[2,64]", "<axis = -1, scale_type = 1>"),
    fp4("float[2,24]"),
    fp4("float[1,16]"),
    fp4("float[2,N]"),
    *(fp4(f"float[{shape}]") for shape in ("64", "1,2,3,64")),
    fp4("float[32,2,4]", "<axis = 0, block_size = 16>"),
    *(fp4("float[2,64]", scale=tensor("s", shape)) for shape in ((2,), (1, 1))),
    fp4("float[2,64]", scale=tensor("s", (), T.FLOAT16)),
    fp4("bfloat16[2,64]", scale=tensor("s", (), T.FLOAT16)),
    fp4("float[2,64]", inputs=", float s"),
    fp4("float[2,64]", made="s = Identity (given)", scale=tensor("given", ())),
    fp4("float[2,64]", reads="x"),
    *(dynamic((16, 16), "float[64,64]", f"output_type = {kind}") for kind in (INT8, INT4, FP4)),
    dynamic((16, 16), "float[64,64]", ""),
    *(
        dynamic((16, 16), "float[64,64]", f"output_type = 17, scale_type = {kind}")
        for kind in (T.FLOAT16, FP8, T.FLOAT8E8M0)
    ),
    dynamic((16, 16), "float[64,64]", reads="x, c"),
    dynamic((16, 16), "int32[64,64]"),
    dynamic(None, "float[64,64]"),
    dynamic((16,), "float[64,64]"),
    dynamic((16,), "float[64]"),
    dynamic((64, 64), "float[64,64]"),
    *(dynamic(shape, "float[64,64]") for shape in ((1, 32), (32, 1), (1, -1), (-1, -1), (1, 1), (1, 8), (16, -2))),
    dynamic((1, 16), "float[2,40]"),
    dynamic((1, 16), "float[2,16]"),
    dynamic((1, 16, 1), "float[2,16,2]"),
    dynamic((16, 1), "float[N,2]"),
    dynamic((1, 1, 1, 16), "float[1,1,2,64]"),
    dynamic((16, 16, 16), "float[64,64,64]"),
    case(
        "q, s = trt.TRT_DynamicQuantize <block_shape = [16,16], output_type = 17> (x)  y = DequantizeLinear (q, s)",
        "float[64,64]",
    ),
    *(blocks((1, 32), "float[2,64]", (2, 2), kind) for kind in (INT4, FP4, T.FLOAT8E5M2, UINT8)),
    blocks((1, 32), "float[2,64]", (2, 4)),
    blocks((1, 64), "float[2,64]", (2,)),
    *(blocks((2, 64), "float[2,64]", scales) for scales in ((), (1, 1))),
    blocks((32,), "float[2,64]", (2, 2)),
    blocks(None, "float[2,64]", (2, 2)),
    blocks((1, -2), "float[2,64]", (2, 1)),
    blocks((32,), "float[64]", (2,)),
    blocks((1, 32), "int32[2,64]", (2, 2)),
    *(blocks((1, 32), "float[2,64]", (2, 2), kind, T.FLOAT, T.INT32) for kind in (FP8, INT8)),
    blocks((1, 32), "float[2,64]", (2, 2), scale=T.FLOAT16),
    blocks((1, 32), "float16[2,64]", (2, 2), FP8, T.FLOAT, T.FLOAT16),
    blocks((1, 32), "float[2,64]", (2, 2), INT8, T.FLOAT16),
    *(blocks((1, 32), "float[2,64]", (2, 2), FP8, made) for made in (T.INT32, INT8, FP8)),
    *(
        weight("TRT_BlockDequantize", kind, (2, 2), attributes="<block_shape = [1,32]>")
        for kind in (INT4, UINT8, T.FLOAT)
    ),
    weight("TRT_BlockDequantize", FP4, (2, 2), attributes="<block_shape = [1,32], output_dtype = 10>"),
    *(static("float[2,64]", scales, axis=-1) for scales in ((2, 3), (1, 2), (1, 1), (2, 64))),
    static("float[2,64]", (2, 2), axis=0),
    # Below opset 13 the axis that is left out is 0.
    Case(static("float[2,64]", (2, 2)).text.replace('"": 23', '"": 11'), (tensor("s", (2, 2), UINT8),)),
    *(static("float[2,64]", (2, 2), axis=axis) for axis in (2, -3)),
    static("float[2,64]", (3,), axis=0),
    static("float[64]", (2,), axis=0),
    static("float[64]", (64,)),
    static("float[N,4]", (2,), axis=0),
    static("float[2,64,3,4]", (2, 2, 3, 4), axis=1),
    static("float[2,64]", (2, 2), INT8, 1, axis=-1),
    *(static("float[2,64]", (2, 2), T.FLOAT, value, axis=-1) for value in (0, -1, np.nan)),
    static("int32[2,64]", (2, 2), axis=-1),
    *(static("float[2,64]", (2, 2), axis=-1, code=code) for code in (INT8, INT4)),
    *(static("float[2,64]", (2, 2), axis=-1, made=made) for made in (T.INT32, FP8)),
    static("float[2,64]", (2, 2), T.FLOAT16, 2, axis=-1),
    static("float16[2,64]", (2, 2), T.FLOAT, 2, axis=-1, code=FP4),
    *(weight(MX_DQ, kind, (2, 2), UINT8, "<axis = -1>") for kind in (INT8, INT4, UINT8, T.FLOAT)),
    weight(MX_DQ, FP8, (2, 2), T.FLOAT16, "<axis = -1>"),
    weight(MX_DQ, FP4, (2, 2), T.FLOAT, "<axis = -1, output_dtype = 10>"),
    case(
        "q = trt.TRT_MXFP8QuantizeLinear <axis = -1> (x, s)  y = trt.TRT_MXFP8DequantizeLinear <axis = -1> (q, t)",
        "float[2,64]",
        tensor("t", (2, 2), UINT8),
        inputs=", uint8[2,2] s",
    ),
    case(
        """q = trt.TRT_MXFP8QuantizeLinear <axis = -1> (x, t)
        s = Identity (t)
        y = trt.TRT_MXFP8DequantizeLinear <axis = -1> (q, s)""",
        "float[2,64]",
        tensor("t", (2, 2), UINT8),
    ),
    *(
        case(
            f"q = trt.{operator}Quantize{tail} {given} {reads}  y = trt.{operator}Dequantize{tail} {given} (q, s)",
            "float[2,64]",
            tensor("s", (2, 2)),
        )
        for operator, tail, given in (
            ("TRT_MXFP8", "Linear", "<axis = -1>"),
            ("TRT_Block", "", "<block_shape = [1,32]>"),
        )
        for reads in ("(x)", '(x, "")')
    ),
]


def refusals(model: onnx.ModelProto) -> set[str]:
    """What the rules say that TensorRT for RTX refuses."""
    context, judge = RuleContext(Model(model)), targets.get("tensorrt-rtx")
    found = (finding for rule in rules.catalogue() for finding in rule.run(context, judge))
    return {f"{finding.code}: {finding.message}" for finding in found if finding.effect == "refused"}


@pytest.mark.parametrize("taken", TAKEN, ids=str)
def test_what_tensorrt_takes_has_no_finding(taken: Case):
    assert refusals(taken.model) == set()


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_what_tensorrt_refuses_has_one(refused: Case):
    assert refusals(refused.model) != set()


@pytest.mark.parametrize(
    ("wrong", "found", "expected"),
    [
        (mx("float[2,64]", reads="x, c"), "2 inputs", "one"),
        (mx("int32[2,64]"), "data of type int32", "float32, float16 or bfloat16"),
        (mx("float[2,64]", "<axis = 5>", back=""), "axis 5 of data of 2 dimensions", "the last axis or the one before"),
        (
            fp4("float[2,64]", scale=tensor("s", (), T.FLOAT16)),
            "data of type float32 and scales of type float16",
            "scales of type float32 or of the same type",
        ),
        (dynamic((1, 16), "float[2,16]"), "16 elements on axis 1", "at least 2 blocks of 16"),
        (dynamic((16, 16), "float[64,64]", ""), "no output_type", "float8e4m3fn"),
        (
            dynamic((1, 8), "float[2,64]"),
            "block_shape [1, 8]",
            "blocks of more than 1 on the last two axes, or of 16 on one of them",
        ),
        (blocks((1, -2), "float[2,64]", (2, 1)), "block_shape [1, -2]", "extents, and -1 for a whole dimension"),
        (blocks(None, "float[2,64]", (2, 2)), "no block_shape", "an extent for each dimension"),
        (blocks((1, 32), "float[2,64]", (2, 4)), "scales of shape [2, 4]", "scales of shape [2, 2]"),
        (
            blocks((1, 32), "float[2,64]", (2, 2), INT8, T.FLOAT16),
            "a result of type float16 and scales of type float32",
            "a result of type float32 or of the same type",
        ),
        (static("float[2,64]", (2, 2), axis=2), "axis 2 of data of 2 dimensions", "an axis that the data has"),
        (static("float[2,64]", (3,), axis=0), "scales of shape [3]", "2 scales, one for each index of axis 0"),
        (
            static("float[2,64]", (2, 3), axis=1),
            "scales of shape [2, 3]",
            "scales in the shape of the data, with a number along axis 1 that divides its extent",
        ),
        (static("float[2,64]", (2, 2), INT8, 1, axis=1), "scales of type int8", "exponents of type uint8"),
        (
            static("float[2,64]", (2, 2), T.FLOAT, 0, axis=1),
            "scales that are not all greater than 0",
            "scales greater than 0",
        ),
        (weight(MX_DQ, INT8, (2, 2), UINT8, "<axis = -1>"), "codes of type int8", "float8e4m3fn or float4e2m1"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(wrong: Case, found: str, expected: str):
    told = [each for each in findings("QT416", wrong.model) if each.found == found]

    assert told
    assert {each.expected for each in told} == {expected}
    assert all(each.message.endswith(f" has {found}; TensorRT takes {expected}") for each in told)


@pytest.mark.slow(reason="TensorRT parses and builds hundreds of models")
@pytest.mark.builder
@pytest.mark.parametrize("accepted", [True, False])
def test_the_parser_and_the_builder_say_so(accepted: bool, oracle: TrtOracle):
    verdicts = {str(each): oracle.judge(each.model) for each in (TAKEN if accepted else REFUSED)}

    assert {name: verdict.message for name, verdict in verdicts.items() if verdict.accepted != accepted} == {}


# Random models: right ones with a few faults.


class Dice(random.Random):
    """Random choices that are mostly right."""

    def pick(self, right: Sequence[Any], odd: Sequence[Any] = ()) -> Any:
        return self.choice(odd if odd and self.random() < 1 / 16 else right)

    def data(self) -> str:
        return self.pick(["float", "float", "float16", "bfloat16"], ["int32", "double"])

    def rank(self, right: Sequence[int] = (2, 2, 3), odd: Sequence[int] = (1, 4)) -> int:
        return self.pick(right, odd)

    def kind(self, data: str) -> int:
        """The type of scales of such data."""
        return self.pick(
            [T.FLOAT, FLOATS[data] if data in ("float16", "bfloat16") else T.FLOAT], [T.FLOAT16, T.BFLOAT16]
        )

    def made(self) -> int | None:
        return self.pick([None, T.FLOAT], [T.FLOAT16, T.BFLOAT16, T.INT32])


def joined(data: str, shape: Sequence[object]) -> str:
    return f"{data}[{','.join(map(str, shape))}]"


def along_an_axis(dice: Dice, block: int) -> tuple[list[object], int]:
    """A shape, and an axis that has whole blocks."""
    rank = dice.rank()
    axis = dice.pick([-1, -1, -2], [0, 1, 2, rank, -rank - 1])
    shape = [dice.pick([1, 2, 3, 33], ["N"]) for _ in range(rank)]
    if -rank <= axis < rank:
        shape[axis] = dice.pick([block, 2 * block, 96], [24, 33, "N", 1])
    return shape, axis + rank if axis < 0 and dice.random() < 0.3 else axis


def random_mx(dice: Dice) -> Case:
    shape, axis = along_an_axis(dice, 32)
    given = written(axis=axis, block_size=dice.pick([None, 32], [16, 64, 0, -32]))
    back = written(axis=axis, block_size=dice.pick([None, 32], [16]), output_dtype=dice.made())
    return mx(joined(dice.data(), shape), given, back=back, reads=dice.pick(["x"], ["x, c"]))


def random_fp4(dice: Dice) -> Case:
    (shape, axis), data = along_an_axis(dice, 16), dice.data()
    given = written(
        axis=axis, block_size=dice.pick([None, 16], [32, 8, 0]), scale_type=dice.pick([None, FP8], [1, 0, FP4])
    )
    scale = tensor("s", dice.pick([(), (1,)], [(1, 1), (2,)]), dice.kind(data), dice.pick([0.5], [0.0, -1.0]))
    if dice.random() < 1 / 8:
        return fp4(joined(data, shape), given, made="s = Constant <value_float = 0.5> ()")
    return fp4(joined(data, shape), given, scale=scale)


def random_dynamic(dice: Dice) -> Case:
    rank = dice.rank()
    right = [(16, 16), (32, 16), (1, 16), (16, 1), (16, -1), (-1, 32), (2, 2)]
    last = dice.pick(right, [(1, 32), (1, 1), (-1, -1), (1, -1), (1, 8), (3, 3), (16, -2)])
    shape = [1] * (rank - 2) + [*last][-rank:]
    extents = [dice.pick([3 * max(each, 1), 4 * max(each, 2)], [33, 16, 1]) for each in shape]
    if rank > 2:
        shape[0], extents[0] = dice.pick([1], [2, -1]), dice.pick([2, 3], ["N"])
    shape = dice.pick([shape], [shape[1:], [1, *shape], None])
    scale = dice.pick(["", ", scale_type = 1"], [", scale_type = 10", ", scale_type = 17"])
    kinds = f"output_type = {dice.pick([FP8], [INT8, FP4, 0])}{scale}"
    return dynamic(shape, joined(dice.data(), extents), kinds, reads=dice.pick(["x"], ["x, c"]), made=dice.made())


def random_blocks(dice: Dice) -> Case:
    rank, data = dice.rank((2, 2, 3, 4), (1, 5)), dice.data()
    shape = [dice.pick([1, 2, 16, 32, -1], [-2]) for _ in range(rank)]
    extents = [dice.pick([2 * each if each > 0 else 32, 33, 48]) for each in shape]
    scales = [1 if each < 1 else -(-size // each) for size, each in zip(extents, shape, strict=True)]
    at = dice.randrange(rank)
    scales[at] = dice.pick([scales[at]], [1, 2, 4])
    scales, shape = dice.pick([scales], [scales[1:]]), dice.pick([shape], [shape[1:] or None])
    kind = dice.pick([None, FP8, INT8], [INT4, FP4, UINT8, T.FLOAT8E5M2])
    return blocks(
        shape, joined(data, extents), scales, kind, dice.made(), dice.pick([dice.kind(data)], [T.INT32, T.DOUBLE])
    )


def random_static(dice: Dice) -> Case:
    rank, data = dice.rank((2, 2, 3), (1, 4)), dice.data()
    extents = [dice.choice([2, 4, 32, 33]) for _ in range(rank)]
    axis = dice.pick([-1, -2 if rank > 1 else 0], [0, rank, -rank - 1])
    at = axis % rank
    extents[at] = dice.pick([32, 64, 96], [48])
    scales = [*extents]
    scales[at] //= dice.pick([32], [16, 64, 1])
    scales = dice.pick([scales, scales, scales, [extents[at]], []], [[2], [1, 1], scales[1:]])
    kind = dice.pick([UINT8, UINT8, dice.kind(data)], [INT8, T.INT32])
    value = dice.pick([2], [0])
    given = dice.pick([axis], [None])
    code = dice.pick([None, FP8], [INT8, INT4])
    return static(
        joined(data, extents),
        scales,
        kind,
        value,
        axis=given,
        block_size=dice.pick([None, 32], [16]),
        code=code,
        made=dice.made(),
    )


def random_pair(dice: Dice) -> Case:
    rank = dice.rank((1, 2, 2, 3), (4,))
    extents = [dice.pick([2, 4, 32], [3]) for _ in range(rank)]
    at, scales = dice.randrange(rank), [*extents]
    scales[at] //= 2
    scales = dice.pick([[], [extents[min(1, rank - 1)]], scales], [[1, 1], [3]])
    name = dice.choice(["TRT_FP8", "TRT_INT4", ""])
    opset, domain = dice.pick([21, 23], [11, 13]), dice.pick(["trt.", ""], ["other."] if name else [])
    return pair(name, scales, data=joined("float", extents), domain=domain, value=dice.pick([0.5], [-1]), opset=opset)


RANDOM: dict[str, Callable[[Dice], Case]] = {
    "mx": random_mx,
    "fp4": random_fp4,
    "dynamic": random_dynamic,
    "blocks": random_blocks,
    "static": random_static,
    "pair": random_pair,
}


@pytest.mark.slow(reason="parses hundreds of random models")
@pytest.mark.builder
@pytest.mark.parametrize("family", RANDOM)
def test_random_models(family: str, oracle: TrtOracle):
    missed, stricter, taken = {}, {}, 0
    for number in range(EXAMPLES // len(RANDOM)):
        made = RANDOM[family](Dice(f"{family} {number}"))
        verdict, said = oracle.judge(made.model), refusals(made.model)
        taken += verdict.accepted
        if verdict.accepted and said:
            stricter[str(made)] = said
        elif not verdict.accepted and not said:
            missed[str(made)] = verdict.message

    assert (missed, stricter) == ({}, {})
    assert EXAMPLES // len(RANDOM) // 4 < taken < EXAMPLES // len(RANDOM)
