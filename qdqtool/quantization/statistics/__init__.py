"""Statistics of a float model that is run over samples: moments of inputs, channels, rounding."""
