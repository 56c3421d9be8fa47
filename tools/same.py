"""Compare what two versions of the package print and write: ``make same SINCE=COMMIT``.

Each model goes through every command, in a process of its own and a folder of its own. Of each command are kept: the
exit code, and the SHA-256 of what it printed and of every file that it wrote. Times, sizes of engines, and the names of
temporary files are replaced first, since they differ between two runs of one version. Engines are not compared: the
builder does not promise equal bytes.

The digests of a commit are kept in ``.same``; those of the working tree are always made anew. Exits with 1 if anything
differs; ``diff -r .same/COMMIT .same/tree`` then shows the texts.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".same"
SECONDS = 900
"""Longest time of all commands of one model."""

PACKAGE_MODELS = (
    "light/light_shufflenet.onnx",
    "light/light_squeezenet.onnx",
    *(
        f"pytorch-converted/test_{name}/model.onnx"
        for name in (
            "BatchNorm2d_eval",
            "Conv1d_pad2size1",
            "Conv2d_depthwise_padded",
            "Conv3d_stride_padding",
            "ConvTranspose2d",
            "Embedding",
            "GLU",
            "Linear",
            "PReLU_2d",
            "Softmax",
        )
    ),
    *(
        f"pytorch-operator/test_operator_{name}/model.onnx"
        for name in ("addmm", "clip", "concat2", "conv", "mm", "params")
    ),
)
"""Networks and nodes that the onnx package brings."""

RANDOM = "--random-calibration --samples 2 --seed 1"
COMMANDS = (
    "inspect m.onnx --tensors --output-format json",
    "inspect m.onnx",
    "validate m.onnx --output-format json",
    "validate m.onnx --target onnx,ort-cpu,tensorrt-10.8 --output-format sarif",
    f"calibrate m.onnx {RANDOM} {{shapes}} -o ranges.json --output-format json",
    f"calibrate m.onnx {RANDOM} {{shapes}} --no-equalize --smoothquant off --awq off -o plain.json",
    "convert-ranges plain.json --to tensorrt-cache -o out.cache",
    f"quantize m.onnx {RANDOM} {{shapes}} -o int8.onnx --output-format json",
    "quantize m.onnx --calibration-cache ranges.json {shapes} -o again.onnx",
    f"quantize m.onnx --quantize-mode fp8 {RANDOM} {{shapes}} --high-precision-dtype fp16 -o fp8.onnx",
    "quantize m.onnx --quantize-mode int4 --block-size 32 {shapes} -o int4.onnx --output-format json",
    f"quantize m.onnx {RANDOM} {{shapes}} --min-sqnr 30 --pareto curve.json -o limit.onnx --output-format json",
    f"sensitivity m.onnx {RANDOM} {{shapes}} -o sensitivity.json --output-format json",
    "inspect int8.onnx --output-format json",
    "validate int8.onnx int4.onnx --target onnx,tensorrt --output-format json",
    "validate int8.onnx --output-format junit",
    "check int8.onnx --baseline m.onnx --samples 2 --blame --save-outputs outputs.npz --output-format json",
    "check int8.onnx --baseline m.onnx --samples 2 --min-sqnr 90",
    "check fp8.onnx --samples 1",
    "diff m.onnx int8.onnx --output-format json",
    "diff int8.onnx int4.onnx --assert-preserved",
    "strip int8.onnx -o stripped.onnx --output-format json",
    "normalize m.onnx -o normal.onnx --output-format json",
    "normalize int8.onnx -o normal8.onnx",
    f"convert m.onnx {RANDOM} {{shapes}} --no-build -o folder",
    "report folder/report.json -o page.html",
    "reduce m.onnx --fails 'grep -q o' --match '^$' --max-runs 4 -o small.onnx -- {}",
)
BUILDS = (
    "build int8.onnx -o int8.engine --backend tensorrt-rtx --compute-capabilities 8.9 --output-format json",
    "verify-engine int8.engine --output-format json",
    "inspect int8.engine.manifest.json --output-format json",
    "run int8.engine -o outputs.npz",
    "bench int8.engine",
)
BUILT = ("char_lm", "digits_cnn", "face_slim_320", "tensorrt_block")
"""Models that an engine is built of, since that takes long."""
SHAPES = {
    "yunet_n_dynamic": "--input-shapes input:1x3x160x160",
    "silero_vad_16k_op15": "--input-shapes input:1x576,state:2x1x128 --input-values sr:16000",
}
WITH_PLAN = ("insert m.onnx --plan plan.toml -o plan.onnx --output-format json",)
"""Commands on a sample model that has a plan."""
WITH_DATA = (
    "calibrate m.onnx --calib-data calibration.npz --shard 1/2 -o part1.json",
    "calibrate m.onnx --calib-data calibration.npz --shard 2/2 -o part2.json",
    "merge part1.json part2.json -o merged.json --output-format json",
    "quantize m.onnx --calib-data calibration.npz --min-sqnr 45 --verbose -o data.onnx",
    "quantize m.onnx --calib-data calibration.npz --quantize-mode nvfp4 -o nvfp4.onnx",
    "quantize m.onnx --calib-data calibration.npz --quantize-mode int4 --block-size 32 -o gptq.onnx",
    "check data.onnx --baseline m.onnx --data calibration.npz --verbose",
)
"""Commands on a sample model that has data."""

NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
VARYING = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (rf'("[a-z_]*(?:seconds|_s|_ms)": ?){NUMBER}', r"\1TIME"),
        (rf"\b{NUMBER} (?:h|min|s|ms|µs)\b", "TIME"),
        (rf"{NUMBER} samples/s", "SPEED"),
        (r'("(?:date|time|when|created|timestamp)": ?)"[^"]*"', r'\1"DATE"'),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?", "DATE"),
        (r"\.same/[^/\s\"']+", ".same/VERSION"),
        (r"/tmp/[^\s\"'<>]*", "TEMPORARY"),
    )
)
"""What differs between two runs of one version."""


def main() -> int:
    """Compare the working tree with a commit, or make the digests of one model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("since", nargs="?", help="commit to compare the working tree with")
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--run", nargs=2, metavar=("NAME", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run_commands(*arguments.run)
        return 0
    commit = git("rev-parse", "--short=8", arguments.since or "HEAD")
    before, after = digests_of_commit(commit, arguments.only), digests_of_tree(ROOT, KEPT / "tree", arguments.only)
    chosen = {name: found for name, found in before.items() if name.startswith(arguments.only)}
    return compare(chosen, after, commit)


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def digests_of_commit(commit: str, only: str) -> dict[str, dict[str, str]]:
    """Return the digests of a commit: by model, by command and file."""
    stored = KEPT / f"{commit}.json"
    if not stored.exists():
        checkout = KEPT / f"{commit}.checkout"
        git("worktree", "add", "--force", "--detach", str(checkout), commit)
        try:
            found = digests_of_tree(checkout, KEPT / commit, only)
        finally:
            git("worktree", "remove", "--force", str(checkout))
        if only:
            return found
        stored.write_text(json.dumps(found, indent=1))
    return dict(json.loads(stored.read_text()))


def models() -> Iterator[tuple[str, Path]]:
    """Yield every model with a name; the last is none, for the commands that read no model."""
    import onnx.backend.test

    for path in sorted((ROOT / "sample_models").rglob("*.onnx")):
        yield path.parent.name if path.stem == "model" else path.stem, path
    if folder := os.environ.get("QDQTOOL_REAL_MODELS"):
        yield from ((path.stem, path) for path in sorted(Path(folder).glob("*.onnx")))
    data = Path(onnx.backend.test.__file__).parent / "data"
    for name in PACKAGE_MODELS:
        yield Path(name).parent.name + "_" + Path(name).stem, data / name
    yield "texts", Path(os.devnull)


def digests_of_tree(tree: Path, kept: Path, only: str) -> dict[str, dict[str, str]]:
    """Run every command of the package in a tree; keep the texts in a folder."""
    shutil.rmtree(kept, ignore_errors=True)
    chosen = [(name, path) for name, path in models() if name.startswith(only)]
    # The longest first, so that no processor waits for one at the end.
    chosen.sort(key=lambda named: -named[1].stat().st_size)

    def run(named: tuple[str, Path]) -> tuple[str, dict[str, str]]:
        name, path = named
        folder = kept / name
        folder.mkdir(parents=True)
        started = time.monotonic()
        script = [sys.executable, __file__, "--run", name, str(path)]
        environment = os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "80", "PYTHONHASHSEED": "0"}
        subprocess.run(script, cwd=folder, env=environment, check=True, timeout=SECONDS)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        return name, json.loads((folder / "digests.json").read_text())

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(run, chosen))


def run_commands(name: str, model: str) -> None:
    """Run all commands on one model in the current folder, and write the digests there."""
    digests: dict[str, str] = {}
    if name == "texts":
        commands: Sequence[str] = [*texts()]
    else:
        shutil.copy(model, "m.onnx")
        Path("m.onnx").chmod(0o644)
        commands = [*COMMANDS, *(BUILDS if name in BUILT else ())]
        for file, more in {"plan.toml": WITH_PLAN, "scales.npz": (), "calibration.npz": WITH_DATA}.items():
            if (Path(model).parent / file).exists():
                shutil.copy(Path(model).parent / file, file)
                commands.extend(more)
    known = set(files())
    for number, template in enumerate(commands):
        line = template.replace("{shapes}", SHAPES.get(name, ""))
        printed = f"{number:03}.txt"
        text = varying_replaced(run_command(shlex.split(line)))
        Path(printed).write_text(text)
        digests[line] = hashlib.sha256(text.encode()).hexdigest()
        for file in files():
            if file not in known and not re.fullmatch(r"\d+\.txt", file):
                known.add(file)
                digests[f"{line} > {file}"] = digest_of_file(Path(file))
    Path("digests.json").write_text(json.dumps(digests))


def files() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*") if path.is_file() and path.name != "digests.json")


def digest_of_file(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix in {".json", ".html", ".md", ".txt", ".sarif", ".toml"}:
        content = varying_replaced(content.decode()).encode()
    return "" if path.suffix == ".engine" else hashlib.sha256(content).hexdigest()


def texts() -> Iterator[str]:
    """Yield the commands that read no model."""
    from qdqtool.cli import command

    yield "--help"
    yield "--version"
    for name in command.list_commands(None):  # type: ignore[arg-type]
        yield f"{name} --help"
        yield f"{name} --no-such-option"
        yield f"{name} no-such-file"
    yield from ("rules", "rules --output-format json", "schema", "explain", "convert --write-recipe")
    yield from ("validate --show-settings", "doctor --output-format json")
    yield from (f"schema {name}" for name in printed_names("schema"))
    yield from (f"explain {code}" for code in sorted(set(re.findall(r"\bQ[A-Z]\d{3}\b", run_command(["rules"])))))


def printed_names(command: str) -> list[str]:
    return re.findall(r"^  ?([a-z][a-z-]+)\b", run_command([command]), re.MULTILINE)


def run_command(words: list[str]) -> str:
    """Run a command in this process; return what it printed, and its exit code."""
    from qdqtool.__main__ import main as run

    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    out.buffer.close = lambda: None  # type: ignore[method-assign]
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run(words)
        except SystemExit as end:
            code = end.code
    out.flush()
    printed = out.buffer.getvalue().decode(errors="backslashreplace")  # type: ignore[attr-defined]
    return f"$ qdqtool {shlex.join(words)}\n{printed}--- stderr\n{err.getvalue()}--- exit code {code}\n"


def varying_replaced(text: str) -> str:
    text = text.replace(str(Path.cwd()), "FOLDER").replace(str(ROOT), "PROJECT")
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return text


def compare(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]], commit: str) -> int:
    """Print every difference; return 1 if there is one."""
    differing = 0
    for name in sorted(before.keys() ^ after.keys()):
        print(f"{name}: only in one version (QDQTOOL_REAL_MODELS names a folder of models)")
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                differing += 1
                print(f"{name}: {key}: {'differs' if key in old and key in new else 'only in one'}")
    count = sum(len(found) for found in after.values())
    print(f"{count} outputs of {len(after)} models: {differing} differ from {commit}")
    return int(differing > 0 or not count)


if __name__ == "__main__":
    sys.exit(main())
