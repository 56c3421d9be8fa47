"""Apply a plan: the graph edits that insert Q/DQ pairs into a model or remove them."""
