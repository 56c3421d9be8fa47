"""Apply fixes to a model, prove them by running it, and look again until nothing is left to fix."""
