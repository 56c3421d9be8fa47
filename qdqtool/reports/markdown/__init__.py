"""Generated Markdown pages, one kind in each module."""
