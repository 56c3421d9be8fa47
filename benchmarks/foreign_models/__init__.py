"""What ``benchmarks/foreign.py`` is made of: models quantized by other tools, and what is done with each."""
