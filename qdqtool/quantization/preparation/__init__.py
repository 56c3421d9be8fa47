"""Prepare a float model for quantization: steps change its weights, and its outputs only by rounding."""
