"""TensorRT engines: built, explained, run on the GPU."""
