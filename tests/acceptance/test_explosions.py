"""Small files that would explode end every command that would expand them: exit 3 and one clear line, in seconds."""

import resource
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.command import qdqtool, qdqtool_process
from support.explosions import concat, functions, loop, named

RUNS = {
    "quantize": ("--calib-data", "d.npz", "-o", "o.onnx"),
    "calibrate": ("--calib-data", "d.npz", "-o", "r.json"),
    "sensitivity": ("--data", "d.npz"),
    "check": (),
    "build": ("-o", "e.engine"),
}
READS = {
    "inspect": (),
    "validate": (),
    "normalize": ("-o", "o.onnx"),
    "strip": ("-o", "o.onnx"),
    "cast": ("-o", "o.onnx"),
    "diff": ("m.onnx",),
    "reduce": ("--fails", "check", "-o", "o.onnx"),
}
MODELS = {
    "concat": (concat(34), "tensor 'c33' is too large for this machine: 275 GB", RUNS),
    "loop": (loop(40), "tensor 'b' is too large for this machine:", RUNS),
    "functions": (functions(40), "calls others so often that inlining gives too many nodes: 1,", RUNS | READS),
    "18 levels": (functions(18), "calls others so often that inlining gives too many nodes: 393,215;", READS),
    "name": (named(5_000_000), "has a name of too many characters, 'nnnnnnnnnnnnnnnnnnnn…': 5,000,000;", RUNS | READS),
}


def prepared(folder: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, folder / "m.onnx")
    shape = (4, 4) if len(model.graph.input[0].type.tensor_type.shape.dim) == 1 else (4, 1, 4)
    np.savez(folder / "d.npz", x=np.random.default_rng(0).normal(size=shape).astype(np.float32))
    return folder


@pytest.mark.parametrize(("name", "command"), [(name, command) for name, made in MODELS.items() for command in made[2]])
def test_it_ends_with_one_line(name: str, command: str, tmp_path: Path) -> None:
    if command == "build":
        pytest.importorskip("tensorrt_rtx")
    model, message, _ = MODELS[name]
    begun = time.process_time()
    done = qdqtool(command, "m.onnx", *(RUNS | READS)[command], cwd=prepared(tmp_path, model))
    assert time.process_time() - begun < 5
    assert done.code == 3, done.err
    error, hint = done.err.splitlines()[:2] if command != "validate" else (done.out + done.err, "QDQTOOL_BOUNDS=")
    assert message in error
    assert len(error) < 1000
    assert "QDQTOOL_BOUNDS=" in hint
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", "d.npz"}


@pytest.mark.parametrize("model", [concat(12), loop(6), functions(3), named(60_000)])
def test_sane_models_with_the_same_parts_are_read_and_run(model: onnx.ModelProto, tmp_path: Path) -> None:
    folder = prepared(tmp_path, model)
    for command in ("inspect", "check"):
        assert qdqtool(command, "m.onnx", cwd=folder).code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space")
def test_it_takes_less_than_a_gigabyte(tmp_path: Path) -> None:
    prepared(tmp_path, loop(40))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert qdqtool_process("check", "m.onnx", cwd=tmp_path, timeout=60).code == 3
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(before, 1 << 20)
