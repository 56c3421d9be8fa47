"""Run models: sessions of ONNX Runtime, our own evaluator, and the observation of inner tensors."""
