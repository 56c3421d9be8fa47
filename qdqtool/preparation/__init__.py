"""Making a float model ready to be quantized, in steps that change its weights and not what it computes."""
