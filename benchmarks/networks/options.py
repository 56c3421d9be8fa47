"""Options that benchmarks with a page of rows share."""

import argparse


def add_output_options(parser: argparse.ArgumentParser, rows: str) -> None:
    """Add what says how many rows run at a time and where results go.

    Args:
        parser: The one to add to.
        rows: What the rows are, for the help.
    """
    parser.add_argument("--jobs", type=int, default=2, help=f"{rows} at the same time")
    parser.add_argument("--render", action="store_true", help="run nothing, show what --json holds")
    parser.add_argument("--json", help="file with results, added to")
    parser.add_argument("--markdown", help="file with comments between which the tables belong")
