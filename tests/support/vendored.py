"""Fetch the libraries of the page with npm, check their digests, and write them into the package: ``make vendored``."""

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from support.paths import ROOT

FOLDER = ROOT / "qdqtool" / "reports" / "page" / "assets" / "vendored"
RECORD = FOLDER / "vendored.json"


def recorded() -> list[dict[str, Any]]:
    """The packages that are vendored: name, version, licence, digest of the archive, and digests of the files."""
    return json.loads(RECORD.read_text())


def folder_of(package: str) -> Path:
    """The folder of a package: the last part of its name."""
    return FOLDER / package.rpartition("/")[2]


def fetch(record: dict[str, Any]) -> None:
    """Write the files of a package; one with another digest is refused."""
    with tempfile.TemporaryDirectory() as folder:
        spec = f"{record['package']}@{record['version']}"
        words = ["npm", "pack", "--silent", spec]
        done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
        archive = Path(folder) / done.stdout.split()[-1]
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != record["integrity"]:
            raise SystemExit(f"{spec} has the digest sha512-{digest}, and {RECORD.name} has {record['integrity']}")
        target = folder_of(record["package"])
        target.mkdir(exist_ok=True)
        with tarfile.open(archive) as package:
            for name in record["files"]:
                found = package.extractfile(f"package/{name}")
                assert found is not None, name
                (target / Path(name).name).write_bytes(found.read())


if __name__ == "__main__":
    for each in recorded():
        fetch(each)
