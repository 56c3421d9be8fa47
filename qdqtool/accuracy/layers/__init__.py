"""Measure what each Q/DQ pair, and each choice of its constants, does to the outputs of the whole model.

One model with a switch at every pair runs all variants in one session: :mod:`.masked_model` makes it,
:mod:`.masked_runs` runs it.
"""
