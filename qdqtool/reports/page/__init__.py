"""One HTML page about a quantized model, made of the JSON reports that other commands printed."""
