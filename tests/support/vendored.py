"""Fetch the chart library of the page with npm, check its digest, and write it into the package: ``make vendored``."""

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from support.paths import ROOT

FOLDER = ROOT / "qdqtool" / "page" / "assets" / "vendored"
RECORD = FOLDER / "vendored.json"


def fetch() -> None:
    """Write the files that the record names; a package with another digest is refused."""
    record = json.loads(RECORD.read_text())
    with tempfile.TemporaryDirectory() as folder:
        spec = f"{record['package']}@{record['version']}"
        words = ["npm", "pack", "--silent", spec]
        done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
        archive = Path(folder) / done.stdout.split()[-1]
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != record["integrity"]:
            raise SystemExit(f"{spec} has the digest sha512-{digest}, and {RECORD.name} has {record['integrity']}")
        with tarfile.open(archive) as package:
            for name in record["files"]:
                found = package.extractfile(f"package/{name}")
                assert found is not None, name
                (FOLDER / Path(name).name).write_bytes(found.read())


if __name__ == "__main__":
    fetch()
