"""Formats of the ``validate`` report for other tools, one in each module, with ``render(report) -> str``.

The file name is the name of the format on the command line: there is no list to edit. Text and JSON are rendered as for
every command.
"""
