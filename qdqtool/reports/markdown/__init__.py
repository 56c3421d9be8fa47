"""Pages as Markdown, one kind a module."""
