"""Models of single contrib operators (domain com.microsoft), made from the lines of ``models.txt``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

DOMAIN = "com.microsoft"
FLOATS = {"float32": "float", "float16": "float16", "bfloat16": "bfloat16"}
_INPUT = re.compile(r"(?:(?P<type>\w+):)?(?P<stored>@?)(?P<shape>[\d,]*)(?:=(?P<values>[\d.,]+))?")

_OUTPUTS = re.compile(r"->([\d,]+)\s*")


@dataclass(frozen=True, slots=True)
class Variant:
    """One line of ``models.txt``: an operator with inputs and attributes, and what is special about it."""

    op_type: str
    inputs: tuple[str, ...]
    attributes: str
    outputs: tuple[int, ...]
    words: str

    def model(self, schema: Any, floats: str) -> onnx.ModelProto | None:
        """Return a model with this node and one float type; None if the schema does not allow the type."""
        rule = {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints}
        wanted = f"tensor({FLOATS[floats]})"
        floating = {name for name, types in rule.items() if "tensor(float)" in types or "tensor(float16)" in types}
        lacking = {name for name in floating if wanted not in rule[name]}
        if (lacking and (lacking == floating or floats == "float32")) or (not floating and floats != "float32"):
            return None
        # An operand that an input of a fixed type names keeps it.
        bound: dict[str, str] = {}

        def typed(formal: Any, given: str | None) -> int:
            types = rule.get(formal.typeStr, [formal.typeStr])
            text = f"tensor({given})" if given else bound.get(formal.typeStr, "")
            text = text or (wanted if wanted in types and formal.typeStr in floating else types[0])
            bound.setdefault(formal.typeStr, text)
            return TensorProto.DataType.Value(text[7:-1].upper())

        graph = onnx.GraphProto(name="contrib")
        number = str(TensorProto.DataType.Value(FLOATS[floats].upper()))
        prefix = f"<{self.attributes.replace('{type}', number)}>" if self.attributes else ""
        node = onnx.parser.parse_node(f"y0 = {DOMAIN}.{self.op_type} {prefix} (x)")
        del node.input[:], node.output[:]
        for at, text in enumerate(self.inputs):
            formal = schema.inputs[min(at, len(schema.inputs) - 1)]
            found = None if text == "-" else _INPUT.fullmatch(text)
            node.input.append(f"x{at}" if found else "")
            if found:
                _add(graph, f"x{at}", found, typed(formal, found["type"]))
        for at in range(max(self.outputs) + 1):
            if at not in self.outputs:
                node.output.append("")
                continue
            node.output.append(f"y{at}")
            made = typed(schema.outputs[at], None)
            graph.output.append(onnx.helper.make_tensor_value_info(f"y{at}", made, None))
        graph.node.append(node)
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid(DOMAIN, 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _add(graph: onnx.GraphProto, name: str, found: re.Match[str], kind: int) -> None:
    shape = [int(each) for each in found["shape"].split(",") if each]
    if not found["stored"] and not found["values"]:
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        return
    values = [float(each) for each in found["values"].split(",")] if found["values"] else [0.5, -0.25, 0.125]
    array = np.resize(np.array(values), shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def variants() -> Iterator[Variant]:
    """Yield the lines of ``models.txt``."""
    for line in Path(__file__).with_name("models.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        op_type, inputs, attributes, words = (part.strip() for part in line.split("|"))
        given = _OUTPUTS.match(words)
        listed = [int(each) for each in given[1].split(",")] if given else [1]
        outputs = tuple(listed if len(listed) > 1 else range(listed[0]))
        yield Variant(op_type, tuple(inputs.split()), attributes, outputs, words[given.end() if given else 0 :])
