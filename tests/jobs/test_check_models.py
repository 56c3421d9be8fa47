"""Models that a settings file lists: what its tables may say, and what becomes of each model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import pair_model
from support.small import make_model

from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.cli.declared import of_command_line
from qdqtool.errors import UsageError
from qdqtool.jobs.check_models import check_models, find_settings, read_checks
from qdqtool.jobs.options import CheckCommand
from qdqtool.options import build

MODEL = '[[check]]\nmodel = "int8.onnx"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``int8.onnx``, ``float.onnx`` and ``data.npz``, and the working directory there."""
    onnx.save(pair_model(TensorProto.INT8).proto, tmp_path / "int8.onnx")
    node = helper.make_node("Identity", ["x"], ["y"])
    onnx.save(make_model([node], {"x": ("n",)}, {"y": ("n",)}, {}), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.linspace(-1, 1, 32, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, path: str = "qdqtool.toml") -> Path:
    Path(path).write_text(text)
    return Path(path)


def test_keys_are_the_options_of_the_command_and_paths_are_relative_to_the_file(folder: Path):
    (folder / "ci").mkdir()
    keys = 'baseline = "../float.onnx"\ncalib-data = "../data.npz"\nmin_sqnr = 20\ninput-shapes = "x:8"\nblame = true\n'
    (listed,) = read_checks(write(f'[[check]]\nmodel = "../int8.onnx"\n{keys}metric = "top-1"\n', "ci/qdqtool.toml"))

    assert listed.model == Path("ci/../int8.onnx")
    assert listed.values["baseline"] == Path("ci/../float.onnx")
    assert listed.values["data"] == Path("ci/../data.npz")
    assert listed.values["input_shapes"] == {"x": (8,)}
    assert listed.values["blame"] is True
    assert build(CheckOptions, dict(listed.values)).gates.min_sqnr == 20


def test_every_option_that_writes_no_file_can_be_given(folder: Path):
    words = {"flag": "true", "integer": "1", "number": "1.5"}
    for option in of_command_line(CheckCommand):
        kind = option.kind
        if kind.read is not None or kind.form in {"output", "binary", "operators"}:
            continue
        word = f'"{next(iter(kind.words))}"' if kind.words else words.get(kind.form, '"word"')
        (listed,) = read_checks(write(f"{MODEL}{option.flag.removeprefix('--')} = {word}\n"))
        assert option.name in listed.values, option.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{MODEL}min-snr = 20\n", "[[check]] 1: unknown key 'min-snr'; did you mean 'min-sqnr'?"),
        (f'{MODEL}min-sqnr = "20"\n', "[[check]] 1: min-sqnr is '20'; expected a number"),
        (f"{MODEL}min-sqnr = true\n", "min-sqnr is True; expected a number"),
        (f"{MODEL}samples = 0\n", "samples is 0; expected an integer from 1 up"),
        (f"{MODEL}samples = 1.5\n", "samples is 1.5; expected an integer"),
        (f"{MODEL}blame = 1\n", "blame is 1; expected true or false"),
        (f'{MODEL}profile = "fast"\n', "profile is 'fast'; expected one of semantic, deployed"),
        (f'{MODEL}data = ["a.npz"]\n', "data is ['a.npz']; expected a string"),
        (f"{MODEL}input-shapes = [1]\n", "expected a string or a list of strings"),
        (f'{MODEL}input-shapes = "x"\n', "[[check]] 1: --input-shapes"),
        (f'{MODEL}data = "a.npz"\ncalib-data = "b.npz"\n', "calib-data is given twice, as --data and --calib-data"),
        (f'{MODEL}metric = "own.py:func"\n', "names the script own.py:func; a settings file must not run code"),
        (f'{MODEL}data = "own.py"\n', "data names the script own.py"),
        (f'{MODEL}save-outputs = "o.npz"\n', "save-outputs would write a file; a settings file must not write files"),
        (f'{MODEL}preview = "p.png"\n', "preview would write a file"),
        (f'{MODEL}ort-custom-ops = ["l.so"]\n', "ort-custom-ops is allowed on the command line only"),
        (f'{MODEL}stand_in = "f.onnx"\n', "stand_in is allowed on the command line only"),
        ("[[check]]\nmin-sqnr = 20\n", "[[check]] 1: 'model' is absent; expected a path"),
        (f'{MODEL}[[check]]\nmodel = "./int8.onnx"\n', "[[check]] 2: model 'int8.onnx' is already in [[check]] 1"),
        ('check = "int8.onnx"\n', "Expected 'array'"),
    ],
)
def test_a_mistake_names_file_table_and_key(folder: Path, text: str, message: str):
    with pytest.raises(UsageError) as caught:
        read_checks(write(text))
    assert str(caught.value).startswith("qdqtool.toml: ")
    assert message in str(caught.value)


def test_pyproject_lists_models_too(folder: Path):
    path = write('[[tool.qdqtool.check]]\nmodel = "int8.onnx"\nsamples = 2\n', "pyproject.toml")
    assert find_settings() == path
    assert [(str(each.model), each.values) for each in read_checks(path)] == [("int8.onnx", {"samples": 2})]


def test_no_model_is_no_success(folder: Path):
    for text in ("", "check = []\n", 'targets = ["tensorrt"]\n'):
        path = write(text)
        with pytest.raises(UsageError, match="no model would be checked"):
            check_models(read_checks(path), path)


def test_each_model_gets_its_verdict_and_none_stops_the_others(folder: Path):
    (folder / "broken.onnx").write_bytes(b"\xff" * 40)
    (folder / "again.onnx").write_bytes((folder / "int8.onnx").read_bytes())
    (folder / "third.onnx").write_bytes((folder / "int8.onnx").read_bytes())
    limits = 'baseline = "float.onnx"\ndata = "data.npz"\nmin-sqnr'
    path = write(
        '[[check]]\nmodel = "broken.onnx"\n'
        f"{MODEL}{limits} = 90\n"
        f'[[check]]\nmodel = "again.onnx"\n{limits} = 10\n'
        '[[check]]\nmodel = "float.onnx"\n'
        '[[check]]\nmodel = "third.onnx"\nbaseline = "float.onnx"\ndata = "none.npz"\n'
    )
    begun: list[str] = []
    report = check_models(read_checks(path), path, begin=begun.append)

    assert begun == ["broken.onnx", "int8.onnx", "again.onnx", "float.onnx", "third.onnx"]
    assert [each.verdict for each in report.models] == ["failed", "failed", "passed", "warning", "failed"]
    assert [each.exit_code for each in report.models] == [3, 1, 0, 0, 2]
    assert (report.verdict, report.exit_code) == ("failed", 3)
    assert report.models[0].report is None
    assert report.models[0].reasons[0].detail.startswith("the check cannot be made: broken.onnx")
    assert "none.npz" in report.models[4].reasons[0].detail


def test_a_good_model_passes_and_strict_fails_a_warning(folder: Path):
    good = write(f'{MODEL}baseline = "float.onnx"\ndata = "data.npz"\nmin-sqnr = 10\nstrict = true\n')
    doubtful = write(f"{MODEL}strict = true\n", "other.toml")

    assert check_models(read_checks(good), good).exit_code == 0
    report = check_models(read_checks(doubtful), doubtful)
    assert (report.verdict, report.exit_code) == ("warning", 1)
    assert check_models(read_checks(doubtful, {"strict": False}), doubtful).exit_code == 0
