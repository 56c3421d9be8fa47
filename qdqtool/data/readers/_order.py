"""The order of the files of a folder."""

import re
from pathlib import Path


def by_number(path: Path) -> tuple[tuple[str, int], ...]:
    """A sort key that counts: ``set_2`` comes before ``set_10``."""
    words = re.findall(r"([^0-9]*)([0-9]*)", path.name)
    return (*((text, int(digits) if digits else -1) for text, digits in words), (path.name, 0))
