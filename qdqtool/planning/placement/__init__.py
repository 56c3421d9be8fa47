"""Decide where Q/DQ pairs go in a float model, and which operators stay float, with reasons."""

from qdqtool.planning.placement.proposal import Proposal as Proposal
from qdqtool.planning.placement.proposal import ProposedSlot as ProposedSlot
from qdqtool.planning.placement.proposal import SkippedNode as SkippedNode
from qdqtool.planning.placement.propose import propose as propose
from qdqtool.planning.placement.reason import FOR_ACCURACY as FOR_ACCURACY
from qdqtool.planning.placement.reason import IN_FALLBACK as IN_FALLBACK
from qdqtool.planning.placement.reason import Reason as Reason
from qdqtool.planning.placement.selection import NodeId as NodeId
from qdqtool.planning.placement.selection import PatternMatch as PatternMatch
from qdqtool.planning.placement.selection import Selection as Selection
from qdqtool.planning.placement.weight_only import WeightGoal as WeightGoal
from qdqtool.planning.placement.weight_only import propose_weights as propose_weights
