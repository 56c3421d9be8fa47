"""One HTML page about a quantized model, made from the JSON reports of other commands."""
