"""Read, index and edit ONNX graphs without loading their weights."""
