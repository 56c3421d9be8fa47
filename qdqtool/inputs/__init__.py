"""What one run of a model takes: its inputs with types and shapes, and the arrays of a sample."""
