"""Rows and blocks of each kind of report, one kind in each module, for the terminal and the page."""
