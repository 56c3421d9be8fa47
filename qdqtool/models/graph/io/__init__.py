"""Read and write models, tensors and external data."""
