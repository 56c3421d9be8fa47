"""Number formats as a type, granularity, quantization schemes and the arithmetic of quantize and dequantize."""
