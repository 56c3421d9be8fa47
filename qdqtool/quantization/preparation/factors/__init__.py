"""Compute factors that make the ranges of a tensor's channels even, from statistics and weights alone."""
