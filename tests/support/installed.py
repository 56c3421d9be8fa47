"""Build wheel and sdist, install the wheel into an empty environment, and use it there as a user does (``make wheel``).

    python -m support.installed FOLDER
    python -m support.installed --python PYTHON

FOLDER gets both files. With --python nothing is built: an environment that has qdqtool is used, as ``make oldest``
makes one. Nothing of the checkout is on the path of what runs there.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_models" / "digits_cnn"
RULES = "qdqtool/manual/rules/"
ABSENT = "pytest mypy ruff hypothesis jsonschema docstring_parser"
HAS_BUILDER = (sys.platform, platform.machine()) in {("linux", "x86_64"), ("win32", "AMD64")}
"""Where the extra ``cpu`` has TensorRT for RTX."""
COMMANDS = (
    "--version",
    "doctor",
    "explain files",
    "explain QP101",
    "schema check",
    "inspect model.onnx",
    "calibrate model.onnx --calib-data data.npz -o ranges.json",
    "sensitivity model.onnx --calib-data data.npz --samples 16",
    "quantize model.onnx --calib-data data.npz -o int8.onnx",
    "validate int8.onnx --target onnx,ort-cpu,tensorrt",
    "check int8.onnx --baseline model.onnx --data data.npz",
    "diff int8.onnx model.onnx",
    "strip int8.onnx -o float.onnx",
    "cast model.onnx --data data.npz -o half.onnx",
    "convert model.onnx --calib-data data.npz --no-build -o converted",
    "migrate -- trtexec --onnx=model.onnx --fp16 --saveEngine=half.engine",
    *(("build int8.onnx -o int8.engine --backend tensorrt-rtx --require-precision int8>=100%",) if HAS_BUILDER else ()),
)


def main(folder: Path) -> None:
    """Build, compare, install and run; a failure ends the process with its output."""
    wheel, sdist = (build(ROOT, kind, folder) for kind in ("wheel", "sdist"))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with tarfile.open(sdist) as packed:
            packed.extractall(scratch / "source", filter="data")
        (source,) = (scratch / "source").iterdir()
        again = build(source, "wheel", scratch)
        if again.read_bytes() != wheel.read_bytes():
            sys.exit(f"{sdist.name} builds another {wheel.name} than the checkout")
        say(f"{sdist.name} builds the same {wheel.name}, byte for byte")
        require_rule_pages(wheel)
        use(install(f"{wheel}[cpu]", scratch / "empty"), scratch)


def require_rule_pages(wheel: Path) -> None:
    """End where a rule has no page in the wheel."""
    with zipfile.ZipFile(wheel) as packed:
        index = packed.read(f"{RULES}README.md").decode()
        missing = [
            code for code in re.findall(r'<a id="(\w+)">', index) if f"{RULES}{code}.md" not in packed.namelist()
        ]
    if missing:
        sys.exit(f"{wheel.name} has no pages of the rules {', '.join(missing)}")
    say("every rule has a page")


def build(project: Path, kind: str, folder: Path) -> Path:
    """The wheel or sdist of a project."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder.resolve())]
    run(words, project)
    found = sorted(folder.glob("*.whl" if kind == "wheel" else "*.tar.gz"), key=lambda path: path.stat().st_mtime)
    return found[-1].resolve()


def install(requirement: str, folder: Path) -> Path:
    """The Python of an environment that has this requirement alone."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement], folder)
    return python


def use(python: Path, scratch: Path) -> None:
    """Run commands on a sample model in a folder outside the checkout."""
    folder = scratch / "work"
    folder.mkdir()
    (folder / "model.onnx").write_bytes((SAMPLE / "model.onnx").read_bytes())
    (folder / "data.npz").write_bytes((SAMPLE / "calibration.npz").read_bytes())
    probe = f"import importlib.util as u; print([n for n in {ABSENT.split()!r} if u.find_spec(n)])"
    if (found := run([str(python), "-c", probe], folder).strip()) != "[]":
        sys.exit(f"the environment has packages of development: {found}")
    for line in COMMANDS:
        out = run([str(python.parent / "qdqtool"), *line.split()], folder)
        say(f"works: qdqtool {line}")
        if line.startswith("schema"):
            json.loads(out)


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run(words: list[str], folder: Path) -> str:
    """The output of a program, which has to end with 0."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PIP_CONSTRAINT"}}
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1] == "--python":
        with tempfile.TemporaryDirectory() as name:
            use(Path(sys.argv[2]).absolute(), Path(name))
    else:
        main(Path(sys.argv[1]))
