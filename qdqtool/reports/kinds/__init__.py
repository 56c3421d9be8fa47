"""What is told of a kind of report, one a module, as rows and blocks that the terminal and the page lay out."""
