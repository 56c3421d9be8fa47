"""Rows and blocks of each kind of report, one a module, which the terminal and the page lay out."""
