"""TensorRT and TensorRT for RTX: what is built, in which process, and which precision came out."""
