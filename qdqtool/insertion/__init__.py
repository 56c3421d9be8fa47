"""Carry a plan out: the graph edits that put Q/DQ pairs into a model or take them out."""
