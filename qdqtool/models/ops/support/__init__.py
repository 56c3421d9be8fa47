"""Questions about a graph that several packages ask, and that need the properties of operators."""
