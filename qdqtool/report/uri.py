"""Paths of files as URIs, on every system."""

import os
from pathlib import Path, PurePath
from urllib.parse import quote


def repository_root() -> Path:
    """The root of the git repository around the working directory; the working directory where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def from_repository(path: str) -> PurePath:
    """A path relative to :func:`repository_root`: the same on every machine. A file outside keeps its absolute path."""
    absolute, root = Path(os.path.normpath(Path.cwd() / path)), repository_root()
    return absolute.relative_to(root) if absolute.is_relative_to(root) else absolute


def file_uri(path: PurePath) -> str:
    """A URI reference: relative for a relative path, ``file:`` for an absolute one, with a drive or a server too.

    Bytes that are no UTF-8 are percent-encoded as they are.
    """
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
