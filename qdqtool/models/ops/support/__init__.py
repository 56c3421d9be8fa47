"""Queries about a graph that several packages share, and that need the properties of operators."""
