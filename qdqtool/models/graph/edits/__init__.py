"""Change a graph: edits as data, and the module that applies them."""
