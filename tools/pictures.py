"""Make the pictures of the README and the manual: ``make pictures``. It needs Chromium and TensorRT for RTX.

    python tools/pictures.py [FOLDER]     default: docs/images

``convert.svg`` has what the command of the README prints on a terminal. ``page-light.png`` and ``page-dark.png`` have
the head of the report page that it writes. A test holds ``convert.svg`` to the output of the command.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_models/digits_cnn"
FILES = ("model.onnx", "calibration.npz")
COMMAND = ("convert", "model.onnx", "--calib-data", "calibration.npz", "-o", "out")
COLUMNS = 84
VIEW = {"width": 1400, "height": 860}


def convert(folder: Path) -> str:
    """Run the command of the README in a folder; return what it prints on a terminal with colors."""
    for name in FILES:
        shutil.copy(SAMPLE / name, folder)
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "qdqtool", *COMMAND]
    done = subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def terminal(printed: str) -> str:
    """Return the command and its output as a picture, in SVG."""
    console = Console(file=StringIO(), width=COLUMNS, record=True, force_terminal=True)
    console.print(f"$ qdqtool {shlex.join(COMMAND)}", markup=False, highlight=False)
    console.print(Text.from_ansi(printed.rstrip()))
    return console.export_svg(title="qdqtool", theme=MONOKAI, unique_id="qdqtool")


def screenshots(page: Path, folder: Path) -> None:
    """Write the head of a report page, in light and in dark colors."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport=VIEW, color_scheme=scheme)
            tab.goto(page.as_uri())
            tab.screenshot(path=folder / f"page-{scheme}.png")
        browser.close()


def main() -> None:
    """Write all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        (folder / "convert.svg").write_text(terminal(convert(Path(scratch))), encoding="utf-8")
        screenshots(Path(scratch) / "out/report.html", folder)


if __name__ == "__main__":
    main()
