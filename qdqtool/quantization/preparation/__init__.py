"""Prepare a float model for quantization: steps that change its weights, and its outputs only by rounding."""
