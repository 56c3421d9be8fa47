"""Placement: where Q/DQ pairs go in a float model, and which operators stay float, with reasons."""

from qdqtool.pipeline.placement.proposal import Proposal as Proposal
from qdqtool.pipeline.placement.proposal import ProposedSlot as ProposedSlot
from qdqtool.pipeline.placement.proposal import SkippedNode as SkippedNode
from qdqtool.pipeline.placement.propose import propose as propose
from qdqtool.pipeline.placement.selection import PatternMatch as PatternMatch
from qdqtool.pipeline.placement.selection import Selection as Selection
from qdqtool.pipeline.placement.weight_only import WeightGoal as WeightGoal
from qdqtool.pipeline.placement.weight_only import propose_weights as propose_weights
