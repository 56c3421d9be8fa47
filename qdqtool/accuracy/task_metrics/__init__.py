"""How well models do their task, given labels: the metrics, and what is counted for them over samples."""
