"""Compare the numbers of a model with a reference: gates, boundaries, outputs and task metrics."""
