"""Decide where Q/DQ pairs go in a float model, and which operators stay float, with reasons."""

from qdqtool.quantization.planning.placement.proposal import FOR_ACCURACY as FOR_ACCURACY
from qdqtool.quantization.planning.placement.proposal import IN_FALLBACK as IN_FALLBACK
from qdqtool.quantization.planning.placement.proposal import NodeId as NodeId
from qdqtool.quantization.planning.placement.proposal import PatternMatch as PatternMatch
from qdqtool.quantization.planning.placement.proposal import PlacementProposal as PlacementProposal
from qdqtool.quantization.planning.placement.proposal import ProposedSlot as ProposedSlot
from qdqtool.quantization.planning.placement.proposal import Reason as Reason
from qdqtool.quantization.planning.placement.proposal import Selection as Selection
from qdqtool.quantization.planning.placement.proposal import SkippedNode as SkippedNode
from qdqtool.quantization.planning.placement.propose import propose as propose
from qdqtool.quantization.planning.placement.weight_only import WeightGoal as WeightGoal
from qdqtool.quantization.planning.placement.weight_only import propose_weights as propose_weights
