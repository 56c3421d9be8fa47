"""Apply fixes to a model, prove them by running the model, and repeat until no fix is left."""
