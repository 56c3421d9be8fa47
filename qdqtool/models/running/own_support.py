"""Find the nodes that ONNX Runtime's CPU provider cannot run, and decide how to run each of them instead.

Measured on ONNX Runtime 1.31: Q/DQ of bfloat16, float8e8m0, fp4 and fp6 have no kernels. Data and scale of a
QuantizeLinear must have the same type, ``precision`` is ignored, int32 is not quantized, and opset 26 is the newest.
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx import TensorProto, defs

from qdqtool.errors import CapabilityError
from qdqtool.models import targets
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.constants import FOLDABLE
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode, is_qdq
from qdqtool.models.graph.index.tensorrt_operators import PLACEHOLDERS
from qdqtool.models.graph.index.view import GraphView, NodeView
from qdqtool.models.graph.scope import ScopePath, node_bodies
from qdqtool.models.options import Profile
from qdqtool.models.running import own_nodes, tensorrt_operators
from qdqtool.models.targets import type_name

NEWEST_OPSET = targets.get("ort-cpu").max_opset or 0

OF_TENSORRT = "ONNX Runtime does not know the operators of TensorRT's parser"
OF_QONNX = "ONNX Runtime does not know the operators of QONNX"

ABSENT_TYPES = frozenset(
    {TensorProto.FLOAT4E2M1, TensorProto.FLOAT6E2M3, TensorProto.FLOAT6E3M2, TensorProto.FLOAT8E8M0}
)
"""Types that ONNX Runtime does not know at all: a tensor of such a type must not enter a session."""

_BYTES = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2})


@dataclass(frozen=True, slots=True, eq=False)
class OwnNode:
    """A node that our own core evaluates.

    Attributes:
        node: The node; it is in the main graph.
        entry: The node as a Q or DQ. None for other operators of TensorRT's parser or QONNX, and for nodes that only
            move tensors of types that ONNX Runtime lacks.
        reason: Why ONNX Runtime cannot evaluate the node.
    """

    node: NodeView
    entry: QdqNode | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatorSplit:
    """The nodes of a model's main graph that ONNX Runtime cannot run unchanged, identified by their outputs.

    Attributes:
        own: Nodes that our own core evaluates.
        widened: The half-precision type of each node of any scope, by scope and outputs, for which ONNX Runtime has no
            kernel of that type; it runs in float32, and its results are rounded to the type.
        types: ``TensorProto.DataType`` of each tensor with a known type.
        index: The index of the model.
    """

    own: Mapping[NodeKey, OwnNode]
    widened: Mapping[tuple[ScopePath, NodeKey], int]
    types: Mapping[str, int]
    index: ModelIndex


def plan_split(index: ModelIndex, profile: Profile = Profile.SEMANTIC) -> EvaluatorSplit | None:
    """Divide a model between ONNX Runtime and our own core; return None if ONNX Runtime can run all of it."""
    main = index.view.main
    _refuse_placeholders(index.view)
    known = {name: found for name, value in main.values.items() if (found := index.elem_type(value))}
    own = {
        entry.node.key: OwnNode(entry.node, entry, reason)
        for entry in index.qdq.nodes
        if entry.node.scope is main and (reason := why_unsupported(entry, index)) and not _is_exact(entry, index)
    }
    own |= {node.key: OwnNode(node, None, why) for node in main.nodes if (why := _why_foreign(node))}
    if ABSENT_TYPES.intersection(known.values()):
        own |= {carrier.node.key: carrier for carrier in _carriers(index, known, own)}
    skipped = {each.node for each in own.values()}
    widened = {(node.scope.path, node.key): half for node, half in _widened(index, profile) if node not in skipped}
    declared = any(known.get(name) == TensorProto.BFLOAT16 for name in (*main.input_names(), *main.output_names()))
    if not own and not widened and not declared and main.opset <= NEWEST_OPSET:
        return None
    _check_schemas(index.view, own)
    return EvaluatorSplit(own, widened, known, index)


def _refuse_placeholders(view: GraphView) -> None:
    functions = {function.name for function in view.model.proto.functions}
    names = PLACEHOLDERS - functions
    placeholder = next((node for node in view.nodes() if node.op_type in names), None)
    if placeholder is not None:
        raise CapabilityError(
            f"node '{placeholder.label}' ({placeholder.op_type}) is a placeholder that nothing computes: the export is "
            "not finished",
            hint="export with Model Optimizer's get_onnx_bytes_and_metadata, or pass the file to an exporter of "
            "modelopt.onnx.export, such as NVFP4QuantExporter",
        )


def why_unsupported(entry: QdqNode, index: ModelIndex) -> str | None:
    """Return why ONNX Runtime cannot run a Q or DQ as ONNX specifies it, or None if it can."""
    if entry.is_of_tensorrt:
        return OF_TENSORRT
    return None if entry.node.domain else next(_obstacles(entry, index), None)


def _is_exact(entry: QdqNode, index: ModelIndex) -> bool:
    """Return whether float32 operators and Casts compute a Q or DQ of bfloat16 without a second rounding.

    A product of an 8-bit code with a scale is exact in float32, and its quotients round to bfloat16 as exact ones do. Q
    and DQ of constants are left to our own core, which evaluates them once.
    """
    if entry.data is None or entry.scale is None or entry.is_of_tensorrt or index.is_constant(entry.data):
        return False
    real = entry.data if entry.is_quantize else entry.output
    if {index.elem_type(each) for each in (real, entry.scale) if each is not None} != {TensorProto.BFLOAT16}:
        return False
    return _since(entry.node) <= NEWEST_OPSET and (
        entry.quantized_type in _BYTES
        and bool(entry.node.attribute("saturate", 1))
        and (not entry.is_quantize or divides_in_bfloat16(entry.node, index))
    )


def divides_in_bfloat16(node: NodeView, index: ModelIndex) -> bool:
    """Return whether a QuantizeLinear with one scale rounds its quotients to bfloat16."""
    data, scale = node.input(0), node.input(1)
    shapes = [index.types.shape(value) if value is not None else None for value in (data, scale)]
    ranks = [len(shape) if shape is not None else 1 for shape in shapes]
    is_one = shapes[1] in {(), (1,)} and ranks[1] <= ranks[0]
    return is_one and node.attribute("precision", 0) in {0, TensorProto.BFLOAT16}


def _why_foreign(node: NodeView) -> str | None:
    """Return why ONNX Runtime cannot run an operator of another domain that our own core supports; else None."""
    if tensorrt_operators.is_evaluated(node.proto):
        return OF_TENSORRT
    return OF_QONNX if own_nodes.is_quant(node.proto) else None


def _obstacles(entry: QdqNode, index: ModelIndex) -> Iterator[str]:
    if _since(entry.node) > NEWEST_OPSET:
        yield f"ONNX Runtime has no opset above {NEWEST_OPSET}"
    for what, found, legal in _types_of(entry, index):
        if found is not None and type_name(found) not in legal:
            yield f"ONNX Runtime has no kernel for {what} of type {type_name(found)}"
    if not entry.is_quantize:
        return
    data, scale = (index.elem_type(value) if value is not None else None for value in (entry.data, entry.scale))
    # ONNX allows mixed types from opset 23. ONNX Runtime 1.31.1 creates a session for them but fails in the run.
    if data is not None and scale is not None and data != scale:
        yield f"ONNX Runtime has no QuantizeLinear of {type_name(data)} with a scale of type {type_name(scale)}"
    if entry.node.attribute("precision", 0) not in {0, TensorProto.FLOAT}:
        yield "ONNX Runtime ignores precision"


def _types_of(entry: QdqNode, index: ModelIndex) -> Iterator[tuple[str, int | None, frozenset[str]]]:
    target = targets.get("ort-cpu")
    real = entry.data if entry.is_quantize else entry.output
    yield "codes", entry.quantized_type, target.quantize_types if entry.is_quantize else target.dequantize_types
    yield "a scale", index.elem_type(entry.scale) if entry.scale is not None else None, target.scale_types
    yield "data", index.elem_type(real) if real is not None else None, target.data_types


def _carriers(index: ModelIndex, known: Mapping[str, int], own: Mapping[NodeKey, OwnNode]) -> Iterator[OwnNode]:
    """Yield the nodes that only move tensors of types that ONNX Runtime lacks, such as a Reshape of fp4 codes."""
    for node in index.view.main.nodes:
        absent = [known[name] for name in (*node.proto.input, *node.proto.output) if known.get(name) in ABSENT_TYPES]
        if node.key in own or not absent:
            continue
        name = type_name(absent[0])
        if not _is_carried(node, known, index):
            raise CapabilityError(
                f"node '{node.label}' ({node.op_type}) reads or makes {name}, which neither ONNX Runtime nor qdqtool's "
                "own evaluator can run",
                hint="dequantize before it; the model's numbers were not checked",
            )
        yield OwnNode(node, None, f"ONNX Runtime has no type {name}")


def _is_carried(node: NodeView, known: Mapping[str, int], index: ModelIndex) -> bool:
    output = node.output()
    if output is not None and index.constants.is_constant(output):
        return True
    makes_codes = node.is_op("Cast") and output is not None and known.get(output.name) in ABSENT_TYPES
    return node.is_op(*FOLDABLE) and not makes_codes


_HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def _widened(index: ModelIndex, profile: Profile) -> Iterator[tuple[NodeView, int]]:
    """Yield the nodes that run in float32, each with the half-precision type to which its results are rounded.

    ONNX Runtime has hardly any kernel for bfloat16. For float16, it puts Casts around most nodes, and then removes a
    Cast to float16 with a Cast back behind it: nothing would be rounded between two nodes.
    """
    halves = {value: kind for value in index.view.values() if (kind := index.elem_type(value)) in _HALVES}
    for node in index.view.nodes() if halves else ():
        found = {halves[value] for value in (*node.present_inputs, *node.present_outputs) if value in halves}
        if len(found) != 1 or not _computes(node, index.view):
            continue
        is_rounded = profile is Profile.SEMANTIC and not is_qdq(node)
        if TensorProto.BFLOAT16 in found or is_rounded or _lacks_float16(node):
            yield node, found.pop()


def _computes(node: NodeView, view: GraphView) -> bool:
    """Return whether a node with half-precision operands runs in float32; Cast, If and Loop take half precision."""
    is_moved = node.is_op("Cast", "BitCast", "Constant", "ConstantOfShape") or view.called(node) is not None
    return not is_moved and not any(True for _ in node_bodies(node.proto))


def _lacks_float16(node: NodeView) -> bool:
    """Return whether ONNX Runtime 1.31.1 has no float16 kernel for a node, and puts no Casts around it.

    Measured with the node tests of ONNX 1.23, in float16: all others run that run in float32.
    """
    if node.is_op("ScatterElements", "ScatterND"):
        return bool(node.attribute("reduction", b"none") != b"none")
    return not node.domain and TensorProto.FLOAT16 in map(node.attribute, ("dtype", "output_datatype"))


def _check_schemas(view: GraphView, own: Mapping[NodeKey, OwnNode]) -> None:
    """Refuse a model that cannot run at :data:`NEWEST_OPSET` because a later opset redefined one of its operators."""
    known = int(defs.onnx_opset_version())
    if view.main.opset > known:
        raise CapabilityError(
            f"the model's opset, {view.main.opset}, is too new: ONNX Runtime knows the default domain up to "
            f"{NEWEST_OPSET}, the onnx package installed here up to {known}"
        )
    for node in view.nodes():
        if node.domain or node.scope.opset <= NEWEST_OPSET or (node.scope is view.main and node.key in own):
            continue
        if _since(node) > NEWEST_OPSET and not _same_but_for_types(node):
            raise CapabilityError(
                f"the model's opset is {node.scope.opset}; ONNX Runtime knows it up to {NEWEST_OPSET}, and node "
                f"'{node.label}' ({node.op_type}) uses a newer definition of its operator"
            )


def _since(node: NodeView) -> int:
    return _first_version(node.op_type, node.scope.opset, node.domain)


@functools.cache
def _first_version(op_type: str, opset: int, domain: str) -> int:
    """Return the opset that introduced the version of an operator that ``opset`` uses."""
    try:
        return int(defs.get_schema(op_type, opset, domain).since_version)
    except defs.SchemaError:
        # Not an operator of ONNX. The runtime reports it.
        return 0


def _same_but_for_types(node: NodeView) -> bool:
    """Return whether the operator has only gained types since :data:`NEWEST_OPSET`."""
    try:
        old = defs.get_schema(node.op_type, NEWEST_OPSET, node.domain)
    except defs.SchemaError:
        return False
    return _signature(old) == _signature(defs.get_schema(node.op_type, node.scope.opset, node.domain))


def _signature(schema: defs.OpSchema) -> tuple[object, ...]:
    attributes = [(a.name, a.type, a.required, str(a.default_value)) for a in schema.attributes.values()]
    formals = [[(formal.name, formal.option) for formal in side] for side in (schema.inputs, schema.outputs)]
    return sorted(attributes, key=lambda attribute: attribute[0]), formals
