"""TensorRT and TensorRT for RTX: parse and build in a child process, explain refusals, read the kernels."""
