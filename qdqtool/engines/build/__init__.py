"""Build engines with TensorRT or TensorRT for RTX, compare their precision with the plan, and verify engine files."""
