"""Run models: sessions of ONNX Runtime, our own evaluator, and reading of inner tensors."""
