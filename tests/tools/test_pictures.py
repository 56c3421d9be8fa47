"""tools/pictures.py: the picture of the README has what the command prints."""

import re
from pathlib import Path

import pytest
from support.paths import ROOT

from tools import pictures


@pytest.mark.slow(reason="converts a model and builds an engine")
@pytest.mark.builder
def test_the_picture_has_what_the_command_prints(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    made = pictures.terminal(pictures.convert(tmp_path))
    stored = (ROOT / "docs/images/convert.svg").read_text(encoding="utf-8")
    assert texts(made) == texts(stored), "make pictures writes it again"


def texts(picture: str) -> list[str]:
    """Return the lines of text in a picture, with 0 for numbers: sizes and versions differ between machines."""
    return [re.sub(r"[\d.]+", "0", text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture)]
