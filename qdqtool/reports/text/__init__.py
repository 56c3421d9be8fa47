"""Reports for a terminal, one kind of report a module: ``render(report, console)``."""
