"""Write a small model as ONNX text that ``onnx.parser`` reads back, as the examples of the rules are written."""

import re

import numpy as np
import onnx
import onnx.printer
from onnx import TensorProto

from qdqtool.models.graph.io.copying import copy_model

_UNPRINTED: dict[int, str] = {
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.INT2: "int2",
    TensorProto.UINT2: "uint2",
    TensorProto.FLOAT4E2M1: "float4e2m1",
}
"""Types whose values the printer leaves out; they are printed as uint8 and named afterwards."""

_BITS = frozenset(
    {
        *_UNPRINTED,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.FLOAT8E8M0,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
    }
)
"""Types that the text spells as raw bits."""


def onnx_text(proto: onnx.ModelProto) -> str:
    """Return a model as ONNX text, with every value and without what the text says twice.

    Args:
        proto: The model; its data lies inside it. It is not changed.
    """
    copy = copy_model(proto)
    names = {}
    for tensor in copy.graph.initializer:
        _spell_out(tensor)
        if tensor.data_type in _UNPRINTED:
            names[tensor.name] = _UNPRINTED[tensor.data_type]
            tensor.data_type = TensorProto.UINT8
    lines = [line.rstrip() for line in onnx.printer.to_text(copy).splitlines()]
    text = "\n".join(re.sub(r"^( {3})+", lambda found: " " * (len(found[0]) // 3 * 4), line) for line in lines)
    text = re.sub(r"(\w+): (?:int|string|tensor)s? = ", r"\1 = ", text).replace("=  {", "= {")
    for name, kind in names.items():
        text = re.sub(rf"\buint8(\[[^\]]*\])? {re.escape(name)} = ", rf"{kind}\1 {name} = ", text)
    return text.strip()


def _spell_out(tensor: TensorProto) -> None:
    """Move the values of a tensor out of ``raw_data``, which the printer leaves out."""
    raw = tensor.raw_data
    if not raw:
        return
    if tensor.data_type in _BITS:
        wide = tensor.data_type in {TensorProto.FLOAT16, TensorProto.BFLOAT16}
        tensor.ClearField("raw_data")
        tensor.int32_data.extend(np.frombuffer(raw, "<u2" if wide else "u1").tolist())
        return
    array = onnx.numpy_helper.to_array(tensor)
    spelled = onnx.helper.make_tensor(tensor.name, tensor.data_type, tensor.dims, array.reshape(-1).tolist())
    tensor.CopyFrom(spelled)
