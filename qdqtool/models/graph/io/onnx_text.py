"""Write a small model as ONNX text that ``onnx.parser`` can read; the examples of the rules have this form."""

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
"""Types whose values the printer omits; they are printed as uint8, and the type name is corrected afterwards."""

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
"""Types whose values are raw bits in the text."""


def onnx_text(proto: onnx.ModelProto) -> str:
    """Return a model as ONNX text with every value, without redundant keywords.

    Args:
        proto: The model, without external data. It is not changed.
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
    """Move the values of a tensor from ``raw_data``, which the printer omits, to another field."""
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
