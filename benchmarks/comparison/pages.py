"""Puts a rendered table into a Markdown file, between two comments if the file has them."""

from pathlib import Path


def put(path: Path, name: str, text: str) -> None:
    """Write ``text`` to a file.

    Args:
        path: Replaced as a whole, unless it holds ``<!-- NAME -->`` and ``<!-- end of NAME -->``: then what is between.
        name: Of the table.
        text: Markdown.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if found and closed:
        text = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
