"""Metrics of two tensors by their formulas in float64, to compare running sums with."""

import math

import numpy as np


def sqnr_db(reference: np.ndarray, x: np.ndarray) -> float:
    """The signal to quantization noise ratio in decibels."""
    a, b = reference.astype(np.float64), x.astype(np.float64)
    return 10 * math.log10(np.sum(a * a) / np.sum((a - b) ** 2))


def cosine(reference: np.ndarray, x: np.ndarray) -> float:
    """The cosine of the angle between the tensors."""
    a, b = reference.astype(np.float64).ravel(), x.astype(np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
