"""Puts rendered tables into a Markdown file, between comments if the file has them."""

from collections.abc import Mapping
from pathlib import Path


def put(path: Path, texts: Mapping[str, str]) -> None:
    """Write Markdown to a file.

    Args:
        path: Where it holds ``<!-- NAME -->`` and ``<!-- end of NAME -->``, what is between is replaced and nothing
            else; a file without any such comments is replaced as a whole.
        texts: By their names.
    """
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    replaced = page
    for name, text in texts.items():
        replaced = _between(replaced, f"<!-- {name} -->", f"<!-- end of {name} -->", text)
    whole = all(f"<!-- {name} -->" not in page for name in texts)
    path.write_text(("\n\n".join(texts.values()) if whole else replaced).rstrip("\n") + "\n", encoding="utf-8")


def _between(page: str, begin: str, end: str, text: str) -> str:
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}" if found and closed else page
