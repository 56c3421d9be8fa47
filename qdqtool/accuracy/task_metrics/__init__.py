"""Task metrics: how well a model does its task on samples with labels."""
