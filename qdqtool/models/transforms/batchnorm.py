"""Fold inference-mode BatchNormalization into the operator in front of it, by edits.

``BN(Conv(x, W, b)) = Conv(x, W * f, (b - mean) * f + B)`` with ``f = scale / sqrt(var + epsilon)`` along the output
channels, by the definition of the operator. All arithmetic is in float64, rounded once to the type of the weight.
"""

from dataclasses import dataclass

from qdqtool.models.graph.edits.edit import AddInitializer, Edit, RemoveNode, RenameOutput, SetInput, SetNodeName
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, pending_tensor, read_array
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import display
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.batchnorm_match import Match, Matcher, folded_weight

MAX_PASSES = 8
"""Each pass folds one of several BatchNormalizations in a row; a longer row is not folded completely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedNode:
    """One BatchNormalization that was folded.

    Attributes:
        node: Its label.
        graph: Its scope; empty for the main graph.
        into: Label of the node that it was folded into.
        op_type: Operator of that node.
    """

    node: str
    graph: str
    into: str
    op_type: str


def fold_batchnorm(model: Model) -> Transformed[tuple[FoldedNode, ...]]:
    """Fold every BatchNormalization that directly follows a Conv, ConvTranspose or Gemm with a stored weight.

    A BatchNormalization in inference mode with constant parameters is folded if nothing else reads its input, in every
    scope. An initializer is constant even where it is also a graph input, as IR versions below 4 require; the input is
    removed with it. A weight with other consumers keeps its values for them. Weights are folded while saving.

    Args:
        model: The model; it is not changed.

    Returns:
        The model, with every BatchNormalization that was folded. Outputs keep their names and change by rounding only.
        The output of a node gets the name of the normalization's output. A node without a name is named after the
        output that it had before, because options and reports identify it by that name.
    """
    done: list[FoldedNode] = []
    for _ in range(MAX_PASSES):
        index = ModelIndex.of(model.fork())
        matches = tuple(Matcher(index).matches())
        if not matches:
            break
        model = apply_edits(index.model, _edits(index.view, matches))
        done += [_folded(match) for match in matches]
    return Transformed(model, tuple(done))


def _edits(view: GraphView, matches: tuple[Match, ...]) -> list[Edit]:
    edits: list[Edit] = []
    namer, dead = Namer(view), DeadCode(view)
    for match in matches:
        path, key = match.node.scope.path, match.node.key
        edits += _new_parameters(view.model, match, namer)
        edits.append(RemoveNode(path, match.norm.key))
        edits.append(RenameOutput(path, key, 0, match.norm.key[0]))
        if not match.node.proto.name:
            edits.append(SetNodeName(path, key, namer.node(key[0])))
        for node, index in (*((match.node, i) for i in (1, 2)), *((match.norm, i) for i in (1, 2, 3, 4))):
            dead.drop_use(node, index)
    return edits + dead.edits()


def _new_parameters(model: Model, match: Match, namer: Namer) -> list[Edit]:
    path, node = match.node.scope.path, match.node
    weight_name = namer.tensor(f"{node.input_name(1)}_folded")
    bias_name = namer.tensor(f"{node.input_name(2) or node.input_name(1) + '_bias'}_folded")
    onnx_type = match.weight.data_type
    weight = pending_tensor(model, weight_name, tuple(match.weight.dims), onnx_type, _weight_payload(model, match))
    return [
        AddInitializer(path, weight),
        AddInitializer(path, make_tensor(bias_name, match.bias, onnx_type)),
        SetInput(path, node.key, 1, weight_name),
        SetInput(path, node.key, 2, bias_name),
    ]


def _weight_payload(model: Model, match: Match) -> Payload:
    stored = match.weight

    def make() -> bytes:
        values = folded_weight(read_array(model, stored), match.affine, match.axis, match.groups)
        return make_tensor("folded", values, stored.data_type).raw_data

    return Payload(nbytes(stored), make)


def _folded(match: Match) -> FoldedNode:
    return FoldedNode(
        node=match.norm.label,
        graph=display(match.norm.scope.path),
        into=match.node.label,
        op_type=match.node.op_type,
    )
