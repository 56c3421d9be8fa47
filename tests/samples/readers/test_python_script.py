"""Scripts: a function that yields samples, called anew for each pass, and all that can go wrong in it."""

import io
import json
import sys
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool_process
from support.data_files import X, save_script
from support.small import make_model

from qdqtool.errors import UsageError
from qdqtool.samples.feeds import load_feeds
from qdqtool.samples.readers import python_script
from qdqtool.samples.sample import NoLabelsError
from qdqtool.samples.signature import InputSpec


@pytest.mark.parametrize(
    ("word", "accepted"),
    [
        ("load.py", True),
        ("load.py:mine", True),
        ("load.py:not a name", False),
        ("load.py:", False),
        ("other.py", False),
    ],
)
def test_a_script_is_a_python_file_with_or_without_the_name_of_a_function(word, accepted, tmp_path):
    save_script(tmp_path, "")
    assert python_script.accepts(tmp_path / word) is accepted


def test_the_folder_of_the_script_is_importable_only_while_it_is_loaded(tmp_path):
    save_script(tmp_path, "VALUE = 1", "imported_by_a_script.py")
    samples = python_script.read(save_script(tmp_path, "import imported_by_a_script\ndef load_data(): return []"), X)
    assert list(samples) == []
    assert str(tmp_path) not in sys.path


def test_the_line_named_is_one_of_the_script_and_not_of_what_it_calls(tmp_path):
    body = "import json\ndef one():\n    return json.loads('{')\ndef load_data():\n    yield one()\n"
    with pytest.raises(UsageError, match=r"load_data\(\) raised JSONDecodeError in line 3:"):
        list(python_script.read(save_script(tmp_path, body), X))


def test_a_script_may_name_its_function_and_import_modules_beside_it(tmp_path):
    save_script(tmp_path, "import numpy\nONES = numpy.ones((1, 2, 3), numpy.float32)", "beside_the_script.py")
    body = "from beside_the_script import ONES\ndef mine():\n    return [{'x': ONES}, {'x': ONES * 2}]"
    feeds = load_feeds(Path(f"{save_script(tmp_path, body)}:mine"), X)
    assert [float(sample["x"].max()) for sample in feeds] == [1, 2]


def test_a_script_without_the_function_suggests_one(tmp_path):
    with pytest.raises(UsageError, match=r"has no function 'load_data'; did you mean 'load_dat'?"):
        load_feeds(save_script(tmp_path, "def load_dat(): pass"), X)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no disk')", r"load\.py raised ValueError in line 1: no disk"),
        ("def load_data(:", r"load\.py raised SyntaxError"),
        ("import sys\nsys.exit(3)", r"load\.py raised SystemExit in line 2: 3"),
        ("def load_data():\n    yield {}\n    1 / 0", "input 'x' is missing"),
        ("def load_data():\n    return 5", r"load_data\(\) raised TypeError: 'int' object is not iterable"),
        ("def load_data():\n    yield [1]", "sample 0 is a list, no dict of arrays by input name"),
        ("def load_data():\n    yield {'x': object()}", "input 'x' holds Python objects of type object"),
        ("def load_data():\n    yield {'x': [[1], [1, 2]]}", "input 'x' is no array"),
    ],
)
def test_whatever_a_script_does_wrong_is_one_line(body, message, tmp_path):
    with pytest.raises(UsageError, match=message) as caught:
        load_feeds(save_script(tmp_path, body), X)
    assert "\n" not in caught.value.message


def test_what_a_script_prints_stays_off_stdout(tmp_path, capsys):
    body = """
        import numpy
        print("loading")
        def load_data():
            print("first")
            yield {"x": numpy.ones((1, 2, 3), numpy.float32)}
    """
    list(load_feeds(save_script(tmp_path, body), X))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.split() == ["loading", "first", "first"]


def test_a_script_that_gives_fewer_samples_the_second_time_is_found_out(tmp_path):
    body = """
        import numpy
        left = iter([3, 2])
        def load_data():
            return [{"x": numpy.ones((1, 2, 3), numpy.float32)}] * next(left)
    """
    feeds = load_feeds(save_script(tmp_path, body), X)
    with pytest.raises(UsageError, match="had 3 samples when they were checked, but 2 later"):
        list(feeds)


def test_the_command_line_takes_a_script_and_keeps_stdout_for_the_report(tmp_path):
    model = make_model([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 2)}, {"y": (1, 2)}, {})
    onnx.save(model, tmp_path / "m.onnx")
    body = "import numpy\nprint('hello')\ndef batches():\n    yield {'x': numpy.float32([[1, 2]])}"
    script = save_script(tmp_path, body)
    done = qdqtool_process("check", tmp_path / "m.onnx", "--data", f"{script}:batches", "--output-format", "json")
    assert done.code == 0, done.err
    assert json.load(io.StringIO(done.out))["data"]["samples"] == 1


def labelled(tmp_path, *labels):
    samples = ", ".join("{'x': 1.0}" if each is None else f"{{'x': 1.0, 'labels': {each}}}" for each in labels)
    return python_script.read(save_script(tmp_path, f"def load_data():\n    return [{samples}]"), X)


def test_labels_are_under_their_key_and_no_input(tmp_path):
    samples = labelled(tmp_path, [3, 4], 5)
    assert [sorted(sample) for sample in samples] == [["x"], ["x"]]
    assert [sample.labels for sample in samples] == [None, None]
    assert [sample.labels.tolist() for sample in samples.with_labels()] == [[3, 4], 5]


def test_samples_without_labels_are_told_from_a_sample_that_lacks_its_own(tmp_path):
    with pytest.raises(NoLabelsError, match=r"load_data\(\), sample 0 has no labels for the metric"):
        labelled(tmp_path, None, 1).with_labels()
    with pytest.raises(UsageError, match=r"load_data\(\), sample 1 has no labels for the metric") as refused:
        list(labelled(tmp_path, 1, None).with_labels())
    assert not isinstance(refused.value, NoLabelsError)


def test_an_input_named_labels_is_no_answer(tmp_path):
    body = "def load_data():\n    return [{'x': 1.0, 'labels': 2.0}]"
    samples = python_script.read(save_script(tmp_path, body), (*X, InputSpec("labels", X[0].dtype, ())))
    assert [sorted(sample) for sample in samples] == [["labels", "x"]]
    with pytest.raises(NoLabelsError, match="'labels' is an input of the model"):
        samples.with_labels()
