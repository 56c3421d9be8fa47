"""Reading, indexing and editing ONNX graphs without loading their weights."""
