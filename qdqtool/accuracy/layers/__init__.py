"""Measure how the outputs of a model change if one tensor is quantized, or if its pair gets another scale.

One model with a switch at every pair runs all variants in one session: :mod:`.masked_model` makes it,
:mod:`.masked_runs` runs it.
"""
