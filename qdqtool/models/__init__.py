"""ONNX models: read, indexed, edited, transformed, run and compared."""
