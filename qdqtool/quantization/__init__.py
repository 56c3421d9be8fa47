"""How a float model is quantized: statistics, ranges, preparation, plan, insertion."""
