"""Files of command lines, hostile ones, and lines that are run: up to an engine from a calibration cache."""

import json
import shlex
import shutil
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool, qdqtool_process
from support.paths import ROOT

from qdqtool.errors import UsageError
from qdqtool.jobs.migrate import LARGEST_FILE, has_pairs, migrate, migrate_file
from qdqtool.linting import rules

SAMPLE = ROOT / "sample_models" / "digits_cnn"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "lines.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_each_line_of_a_file_is_translated(tmp_path: Path) -> None:
    text = "# builds\n\ntrtexec --onnx=a.onnx \\\n  --saveEngine=a \\\n  --skipInference\n"
    text += "trtexec --loadEngine=b # runs"
    report = migrate_file(written(tmp_path, text))
    assert [[shlex.join(words) for words in line.commands] for line in report.lines] == [
        ["qdqtool build a.onnx -o a"],
        ["qdqtool bench b"],
    ]
    with pytest.raises(UsageError, match=r"lines.txt, line 6: trtexec has no option '--runs'"):
        migrate_file(written(tmp_path, text.replace("# runs", "--runs")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\x00", "is not a text file"),
        (b"trtexec --onnx=a\0b", "is not a text file"),
        (b"# nothing\n\n", "has no command line"),
        (b"", "has no command line"),
        (b"trtexec " + b"a" * 200_000, "line 1: the line has 200008 characters; at most 100,000"),
        (b"#" * (LARGEST_FILE + 1), "is not a text file of command lines"),
        (b"trtexec --onnx='a\ntrtexec --onnx=b", "line 1: the line cannot be divided into words"),
        (b"trtexec --onnx=a \\", ""),
    ],
)
def test_hostile_files_give_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    path = written(tmp_path, data)
    if not message:
        assert len(migrate_file(path).lines) == 1
        return
    with pytest.raises(UsageError) as caught:
        migrate_file(path)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        migrate_file(tmp_path / "absent")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        migrate_file(tmp_path)


def test_names_with_spaces_quotes_and_newlines_can_be_pasted() -> None:
    done = qdqtool("migrate", """trtexec --onnx="it's a.onnx" --saveEngine='b;c'""")
    assert done.out.splitlines()[0] == """qdqtool build 'it'"'"'s a.onnx' -o 'b;c'"""
    done = qdqtool("migrate", "trtexec --onnx='a\nb.onnx' --saveEngine=e")
    assert "\\n" in done.out
    report = migrate("trtexec --onnx='a\nb.onnx' --saveEngine=e")
    assert report.lines[0].commands == (("qdqtool", "build", "a\nb.onnx", "-o", "e"),)


def test_a_long_option_is_cut_and_its_command_is_not() -> None:
    layers = ",".join(f"layer{number}:fp32" for number in range(100))
    line = f"trtexec --onnx=a --saveEngine=e --fp16 --precisionConstraints=obey --layerPrecisions={layers}"
    first, *rest = qdqtool("migrate", line).out.splitlines()
    assert first.count("--nodes-to-exclude") == 100
    assert max(map(len, rest)) < 260


def test_the_exit_code_says_whether_the_result_is_the_same() -> None:
    assert qdqtool("migrate", "trtexec --onnx=a --saveEngine=e --useSpinWait").code == 0
    assert qdqtool("migrate", "trtexec", "--onnx=a", "--saveEngine=e").code == 2, "click reads the options"
    assert qdqtool("migrate", "--", "trtexec", "--onnx=a", "--saveEngine=e").code == 0
    assert qdqtool("migrate", "trtexec --onnx=a --saveEngine=e --useDLACore=0").code == 1
    assert qdqtool("migrate", "trtexec --onnx=a --saveEngine=e --int8").code == 1
    assert qdqtool("migrate", "trtexec --onnx=a --saveEngine=e --int8", "--calib-data", "x.npz").code == 0
    assert qdqtool("migrate", "trtexec --onx=a").code == 2
    assert qdqtool("migrate").code == 2
    assert qdqtool("migrate", "trtexec --onnx=a", "-f", "x").code == 2


def test_a_damaged_model_has_its_own_exit_code(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    done = qdqtool("migrate", "trtexec --onnx=a.onnx --int8 --calib=c --saveEngine=e", cwd=tmp_path)
    assert done.code == 3


def test_pairs_of_a_model_are_seen(tmp_path: Path) -> None:
    assert not has_pairs(str(SAMPLE / "model.onnx"))
    assert not has_pairs("absent.onnx")
    onnx.save(rules.get("QP101").VALID[0].model(), tmp_path / "q.onnx")
    assert has_pairs(str(tmp_path / "q.onnx"))
    (line,) = migrate(f"trtexec --onnx={tmp_path}/q.onnx --int8 --saveEngine=e").lines
    assert [words[1] for words in line.commands] == ["build"]


def test_missing_data_is_asked_for_before_anything_runs(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "model.onnx", tmp_path)
    done = qdqtool("migrate", "trtexec --onnx=model.onnx --fp16 --int8 --saveEngine=e", "--run", cwd=tmp_path)
    assert done.code == 2
    assert "nothing was run" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.slow(reason="each command runs in a process of its own")
def test_the_first_command_that_fails_ends_the_run(tmp_path: Path) -> None:
    line = "trtexec --onnx=absent.onnx --fp16 --saveEngine=e"
    done = qdqtool_process("migrate", line, "--run", "--output-format", "json", cwd=tmp_path)
    assert done.code == 3
    assert json.loads(done.out)["exit_codes"] == [3]
    assert "$ qdqtool cast absent.onnx" in done.err
    assert "$ qdqtool build" not in done.err


@pytest.mark.slow(reason="the command runs in a process of its own")
def test_given_data_is_used(tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "model.onnx", tmp_path)
    line = "python -m modelopt.onnx.quantization --onnx_path=model.onnx --high_precision_dtype=fp32"
    data = ("--calib-data", SAMPLE / "calibration.npz")
    done = qdqtool_process("migrate", line, *data, "--run", "--quiet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert has_pairs(str(tmp_path / "model.quant.onnx"))


@pytest.mark.slow(reason="it quantizes, converts and builds")
def test_a_calibration_cache_becomes_an_engine(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    shutil.copy(SAMPLE / "model.onnx", tmp_path)
    data = SAMPLE / "calibration.npz"
    assert qdqtool("calibrate", "model.onnx", "--calib-data", data, "-o", "r.json", cwd=tmp_path).code == 0
    convert = ("convert-ranges", "r.json", "--to", "tensorrt-cache", "-o", "t.cache")
    assert qdqtool(*convert, cwd=tmp_path).code == 0
    line = "trtexec --onnx=model.onnx --int8 --fp16 --calib=t.cache --saveEngine=m.engine --optShapes=image:1x1x8x8"
    done = qdqtool_process("migrate", f"{line} --skipInference", "--run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert has_pairs(str(tmp_path / "model.int8.onnx"))
    manifest = json.loads((tmp_path / "m.engine.manifest.json").read_text())
    assert manifest["backend"] == "tensorrt-rtx"
    assert "8 of 8 planned int8 nodes run in int8 kernels" in done.out
