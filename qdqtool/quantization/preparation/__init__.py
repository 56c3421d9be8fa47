"""Prepare a float model for quantization: steps that change its weights; its outputs change by rounding only."""
