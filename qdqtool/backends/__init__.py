"""What runs or builds a model: ONNX Runtime CPU, TensorRT for RTX, TensorRT. Heavy packages are imported inside."""
