"""The matches job: list the nodes that quantize would quantize and skip, without running the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qdqtool.jobs.quantize_unchanged import left_in_float
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import display
from qdqtool.models.transforms.batchnorm import fold_batchnorm
from qdqtool.models.transforms.computed_weights import store_computed_weights
from qdqtool.quantization.planning.existing_pairs import propose_for, settle_model
from qdqtool.quantization.planning.placement import PatternMatch
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeToQuantize:
    """One node that would read a dequantized tensor.

    Attributes:
        node: Label of the node.
        op_type: Operator of the node.
        graph: Scope of the node; empty for the main graph.
    """

    node: str
    op_type: str
    graph: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchesReport:
    """The nodes that ``quantize`` would quantize or skip.

    Attributes:
        model: The input model.
        target: The target of the placement.
        patterns: Each pattern, with the nodes that it matches.
        quantized: Nodes that would be quantized.
        skipped: Quantizable nodes that would not be quantized, with the reason.
    """

    model: str
    target: str
    patterns: tuple[PatternMatch, ...]
    quantized: tuple[NodeToQuantize, ...]
    skipped: tuple[NodeReason, ...]


def list_matches(model: str | Path | Model, recipe: Recipe | None = None) -> MatchesReport:
    """List what ``quantize_model`` would quantize and skip, without running the model."""
    source = model if isinstance(model, Model) else load_model(model)
    settled = settle_model(source, recipe or Recipe())
    recipe = settled.recipe
    stored = store_computed_weights(with_fixed_inputs(settled.model, recipe)).model
    folded = fold_batchnorm(stored).model
    index = ModelIndex.of(folded)
    proposal = propose_for(index, recipe)
    uses = {(use.scope, use.node) for entry in proposal.slots for use in entry.uses}
    nodes = (node for node in index.view.nodes() if (node.scope.path, node.key) in uses)
    return MatchesReport(
        model=str(source.path or ""),
        target=recipe.target,
        patterns=recipe.selection.matches(index.view),
        quantized=tuple(
            NodeToQuantize(node=node.label, op_type=node.op_type, graph=display(node.scope.path)) for node in nodes
        ),
        skipped=left_in_float(proposal.skipped),
    )
