"""Change a graph: edits as values, and the one module that carries them out."""
