"""Compute factors that equalize the ranges of a tensor's channels, from statistics and weights only."""
