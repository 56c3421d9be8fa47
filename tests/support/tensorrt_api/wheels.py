"""NVIDIA's wheels of the Python bindings, loaded without TensorRT: ``python -m support.tensorrt_api.wheels FOLDER``.

The command fetches the wheels into a folder, and writes the type stubs of the older releases there. With
``--write-stubs`` it also writes those that are in git.

The bindings need the libraries of TensorRT, which have gigabytes, only to make objects. Empty libraries with the
functions that they link to let them load: classes, members and signatures can then be read. ``trt.Builder(…)`` fails
as it does on a machine without a GPU: the library returns no object.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from support.paths import ROOT
from support.tensorrt_api import BINDINGS, FETCHED, NEWEST, VARIABLE, Release

_FUNCTIONS = (
    "createInferBuilder_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "getPluginRegistry",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "getInferLibVersion",
    "initLibNvInferPlugins",
)
_MISSING = re.compile(r"ImportError: (lib[\w.]+): cannot open shared object file")
_MOST_LIBRARIES = 8


class Bindings:
    """The bindings of one release, unpacked, with empty libraries beside them.

    Args:
        release: The release.
        wheel: Its wheel.
        folder: An empty folder.
    """

    def __init__(self, release: Release, wheel: Path, folder: Path) -> None:
        self.release, self.folder = release, folder
        self._libraries = folder / "libraries"
        self._libraries.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        # The package that users import has nothing but this, and the libraries.
        package = folder / release.module
        package.mkdir()
        inner = f"{release.module}_bindings"
        (package / "__init__.py").write_text(f"from {inner} import *\nfrom {inner} import __version__\n")
        self._make_libraries()

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a process that imports them."""
        paths = [str(self.folder), str(ROOT), str(ROOT / "tests")]
        return {**os.environ, "LD_LIBRARY_PATH": str(self._libraries), "PYTHONPATH": os.pathsep.join(paths)}

    def describe(self) -> str:
        """The type stub, read from the compiled bindings."""
        done = self._python("-m", "support.tensorrt_api.describe", f"{self.release.module}_bindings")
        assert not done.returncode, done.stderr
        return done.stdout

    def _make_libraries(self) -> None:
        for _ in range(_MOST_LIBRARIES):
            done = self._python("-c", f"import {self.release.module}")
            missing = _MISSING.search(done.stderr)
            if missing is None:
                assert not done.returncode, done.stderr
                return
            _empty_library(self._libraries / missing[1])

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # -S: the bindings of TensorRT for RTX would load the real libraries that are installed beside them.
        command = [sys.executable, "-S", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)


def _empty_library(path: Path) -> None:
    source = "".join(f"void *{name}(void) {{ return 0; }}\n" for name in _FUNCTIONS)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), f"-Wl,-soname,{path.name}"]
    subprocess.run(command, input=source, text=True, check=True)


def bindings(release: Release, folder: Path) -> Bindings:
    """The bindings of a release for a test; the test is skipped where they cannot be had."""
    wheel = find_wheel(release, BINDINGS)
    if wheel is None or shutil.which("cc") is None or sys.platform != "linux":
        _lack(f"Linux, cc, and the wheel of {release.package} {release.version} in {BINDINGS}")
    assert wheel is not None
    return Bindings(release, wheel, folder)


def stub_text(release: Release) -> str:
    """The type stub of a release for a test; the test is skipped where it was not made."""
    if not release.stub.is_file():
        _lack(f"the stub {release.stub}")
    return release.stub.read_text(encoding="utf-8")


def _lack(what: str) -> None:
    (pytest.fail if VARIABLE in os.environ else pytest.skip)(f"needs {what}: run `make bindings`")


@cache
def find_wheel(release: Release, folder: Path) -> Path | None:
    """The wheel of a release for this Python; None where the folder has none."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return next(folder.glob(f"{release.package.replace('-', '_')}-{release.version}-{tag}-*.whl"), None)


def fetch(folder: Path) -> None:
    """Fetch the wheels of all releases that are not there."""
    for release in FETCHED:
        if find_wheel(release, folder) is None:
            name = f"{release.package}=={release.version}"
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "--dest", str(folder), name], check=True)
    find_wheel.cache_clear()


def _write_stubs(releases: Iterable[Release], folder: Path, scratch: Path) -> None:
    for release in releases:
        wheel = find_wheel(release, folder)
        assert wheel is not None
        release.stub.parent.mkdir(parents=True, exist_ok=True)
        release.stub.write_text(Bindings(release, wheel, scratch / release.folder).describe())


def main() -> None:
    """Fetch the wheels, and write the stubs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write-stubs", action="store_true")
    asked = parser.parse_args()
    fetch(asked.folder)
    releases = [each for each in FETCHED if asked.write_stubs or (each not in NEWEST and not each.stub.is_file())]
    with tempfile.TemporaryDirectory() as scratch:
        _write_stubs(releases, asked.folder, Path(scratch))


if __name__ == "__main__":
    main()
