"""Validate reports for machines and other tools: one format a module, ``render(report) -> str``.

The package is walked: the file name is the name on the command line. Text and JSON are rendered as for every command.
"""
