"""Data layouts: every reader gives the same samples, and everything wrong is one clear message before any run."""

import io
import json
import pickle
import re
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.command import qdqtool
from support.small import make_model

from qdqtool.data import InputSpec, load_feeds
from qdqtool.errors import UsageError

F32 = np.dtype(np.float32)
X = (InputSpec("x", F32, ("batch", 2, 3)),)
XY = (*X, InputSpec("ids", np.dtype(np.int64), ("batch", None)))


def array(samples: int = 5) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(samples, 2, 3)).astype(np.float32)


def save_npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def save_npy(path: Path, x: np.ndarray) -> Path:
    np.save(path, x)
    return path


def save_folder(folder: Path, x: np.ndarray) -> Path:
    folder.mkdir()
    for index, sample in enumerate(x):
        np.savez(folder / f"s{index}.npz", x=sample[None])
    return folder


def save_npy_folder(folder: Path, x: np.ndarray) -> Path:
    folder.mkdir()
    for index, sample in enumerate(x):
        np.save(folder / f"s{index}.npy", sample[None])
    return folder


def save_sets(folder: Path, x: np.ndarray) -> Path:
    for index, sample in enumerate(x):
        inner = folder / f"test_data_set_{index}"
        inner.mkdir(parents=True)
        (inner / "input_0.pb").write_bytes(numpy_helper.from_array(sample[None]).SerializeToString())
    return folder


def save_script(folder: Path, body: str, name: str = "load.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(body))
    return path


def save_loader(folder: Path, x: np.ndarray) -> Path:
    np.save(folder / "beside.npy", x)
    body = """
        import numpy, pathlib
        def load_data():
            for sample in numpy.load(pathlib.Path(__file__).with_name("beside.npy")):
                yield {"x": sample[None]}
    """
    return save_script(folder, body)


LAYOUTS = {
    "npz": lambda folder, x: save_npz(folder / "d.npz", x=x),
    "npz, column major": lambda folder, x: save_npz(folder / "d.npz", x=np.asfortranarray(x)),
    "npy": lambda folder, x: save_npy(folder / "d.npy", x),
    "folder": lambda folder, x: save_folder(folder / "d", x),
    "folder of npy": lambda folder, x: save_npy_folder(folder / "d", x),
    "test data sets": lambda folder, x: save_sets(folder / "d", x),
    "script": save_loader,
}
KINDS = list(LAYOUTS)


def layout(kind: str, folder: Path, x: np.ndarray) -> Path:
    return LAYOUTS[kind](folder, x)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layout_gives_the_same_samples_in_order_again_and_again(kind, tmp_path):
    x = array(12)  # 12: ten and eleven come after nine, whatever the letters say
    feeds = load_feeds(layout(kind, tmp_path, x), X)
    for _ in range(2):
        got = [sample["x"] for sample in feeds]
        assert [sample.shape for sample in got] == [(1, 2, 3)] * 12
        assert np.array_equal(np.concatenate(got), x)
    assert len(feeds) == 12
    assert feeds.description.shapes == {"x": (1, 2, 3)}


@pytest.mark.parametrize("kind", KINDS)
def test_nan_in_the_last_sample_is_found_before_any_run_and_named(kind, tmp_path):
    x = array(4)
    x[3, 1, 2] = np.nan
    with pytest.raises(UsageError, match=re.escape("sample 3: input 'x' is nan at [0, 1, 2]")):
        load_feeds(layout(kind, tmp_path, x), X)


@pytest.mark.parametrize("kind", KINDS)
def test_the_wrong_type_is_named_with_the_right_one(kind, tmp_path):
    with pytest.raises(UsageError, match="sample 0: input 'x' has type float64; the model takes float32"):
        load_feeds(layout(kind, tmp_path, array().astype(np.float64)), X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_static_dimension_is_named_with_the_model_s_shape(kind, tmp_path):
    with pytest.raises(UsageError, match=re.escape("has shape [1, 2, 2]; the model takes x: float32 [batch, 2, 3]")):
        load_feeds(layout(kind, tmp_path, array()[:, :, :2]), X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_rank_is_an_error(kind, tmp_path):
    with pytest.raises(UsageError, match="has shape"):
        load_feeds(layout(kind, tmp_path, array()[..., 0, 0]), X)


@pytest.mark.parametrize("kind", ["npz", "npy", "script"])
def test_no_samples_is_an_error(kind, tmp_path):
    with pytest.raises(UsageError, match="has no samples"):
        load_feeds(layout(kind, tmp_path, array(0)), X)


def test_a_wrong_name_is_named_with_the_nearest_input(tmp_path):
    with pytest.raises(UsageError, match=r"'imag' is no input of the model; its inputs: image; did you mean 'image'?"):
        load_feeds(save_npz(tmp_path / "d.npz", imag=array()), (InputSpec("image", F32, None),))


def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(UsageError, match="input 'ids' is missing"):
        load_feeds(save_npz(tmp_path / "d.npz", x=array()), XY)


def test_inputs_with_different_numbers_of_samples_are_an_error(tmp_path):
    path = save_npz(tmp_path / "d.npz", x=array(3), ids=np.zeros((4, 7), np.int64))
    with pytest.raises(UsageError, match="different number of samples for each input: x 3, ids 4"):
        load_feeds(path, XY)


def test_arrays_that_are_the_inputs_of_one_run_are_one_sample(tmp_path):
    graph = (InputSpec("nodes", F32, ("n", 3)), InputSpec("edges", np.dtype(np.int64), (2, "e")))
    folder = tmp_path / "d"
    folder.mkdir()
    for count in (5, 7):
        np.savez(folder / f"{count}.npz", nodes=np.ones((count, 3), np.float32), edges=np.zeros((2, 9), np.int64))
    shapes = [(sample["nodes"].shape, sample["edges"].shape) for sample in load_feeds(folder, graph)]
    assert shapes == [((5, 3), (2, 9)), ((7, 3), (2, 9))]


def test_an_additive_mask_may_hold_minus_infinity(tmp_path):
    x = array(2)
    x[1, 0, 2] = -np.inf
    first, second = load_feeds(save_npz(tmp_path / "d.npz", x=x), X)
    assert np.array_equal(np.concatenate([first["x"], second["x"]]), x)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_pickled_objects_are_refused_and_never_loaded(kind, tmp_path):
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return open, (str(ran), "w")

    path = tmp_path / f"d.{kind}"
    objects = np.array([Bomb()], dtype=object)
    if kind == "npz":
        np.savez(path, x=objects)
    else:
        np.save(path, objects, allow_pickle=True)
    with pytest.raises(UsageError, match="holds pickled Python objects, which are never loaded"):
        load_feeds(path, X)
    assert not ran.exists()


def test_a_pickle_under_an_npz_name_is_refused(tmp_path):
    path = tmp_path / "d.npz"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(UsageError, match=r"is not a readable \.npz file"):
        load_feeds(path, X)


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_a_truncated_file_is_refused(kind, tmp_path):
    path = layout(kind, tmp_path, array())
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"not a readable|damaged"):
        load_feeds(path, X)


def test_an_npy_file_needs_a_model_with_one_input(tmp_path):
    with pytest.raises(UsageError, match="holds one array, and the model has 2 inputs: x, ids"):
        load_feeds(save_npy(tmp_path / "d.npy", array()), XY)


def test_a_file_of_no_known_kind_lists_what_is_legal(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("1,2")
    with pytest.raises(UsageError, match=r"of no known kind; legal: .*\.npz file.*FILE\.py.*test_data_set"):
        load_feeds(path, X)


def test_a_folder_of_images_points_to_scripts(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(b"")
    with pytest.raises(UsageError, match="of no known kind") as caught:
        load_feeds(tmp_path, X)
    assert "a Python script reads anything else" in caught.value.hint


def test_a_folder_of_npy_files_has_no_place_for_labels(tmp_path):
    with pytest.raises(UsageError, match="has no place for the right answers"):
        load_feeds(save_npy_folder(tmp_path / "d", array()), X, labels=True)


def test_a_path_that_does_not_exist_says_so(tmp_path):
    with pytest.raises(UsageError, match="no such file or folder"):
        load_feeds(tmp_path / "absent.npz", X)


def test_a_fixed_batch_takes_that_many_rows_and_a_last_partial_batch_repeats_its_last_row(tmp_path):
    fixed = (InputSpec("x", F32, (4, 2, 3)),)
    x = array(6)
    for path in (save_npz(tmp_path / "d.npz", x=x), save_npy(tmp_path / "d.npy", x)):
        first, second = (sample["x"] for sample in load_feeds(path, fixed))
        assert np.array_equal(first, x[:4])
        assert np.array_equal(second, x[[4, 5, 5, 5]])


def test_samples_of_different_shapes_may_lie_in_one_folder(tmp_path):
    specs = (InputSpec("x", F32, (1, None)),)
    folder = tmp_path / "d"
    folder.mkdir()
    for length in (3, 11, 5):
        np.savez(folder / f"length_{length}.npz", x=np.ones((1, length), np.float32))
    assert [sample["x"].shape[1] for sample in load_feeds(folder, specs)] == [3, 5, 11]


def test_only_as_many_samples_as_asked_for_are_read(tmp_path):
    x = array(5)
    x[4] = np.nan
    feeds = load_feeds(save_npz(tmp_path / "d.npz", x=x), X, limit=4)
    assert len(list(feeds)) == len(feeds) == 4


def test_test_data_files_go_to_the_inputs_by_their_order_whatever_their_names(tmp_path):
    ids = np.arange(3, dtype=np.int64)[None]
    for index, value in enumerate((array(1), ids)):
        tensor = numpy_helper.from_array(value, "some other name")
        (tmp_path / f"input_{index}.pb").write_bytes(tensor.SerializeToString())
    (sample,) = load_feeds(tmp_path, XY)
    assert np.array_equal(sample["x"], array(1))
    assert np.array_equal(sample["ids"], ids)


def test_test_data_without_the_file_of_an_input_names_it(tmp_path):
    with pytest.raises(UsageError, match=r"has no input_1\.pb, the file of input 'ids'"):
        load_feeds(save_sets(tmp_path / "d", array(1)), XY)


def test_test_data_with_a_file_too_many_is_an_error(tmp_path):
    (tmp_path / "input_0.pb").write_bytes(b"")
    (tmp_path / "input_1.pb").write_bytes(b"")
    with pytest.raises(UsageError, match=r"has input_1\.pb, and the model has only 1 inputs: x"):
        load_feeds(tmp_path, X)


@pytest.mark.parametrize("data", [b"garbage that is no protobuf", b"\x08\x02\x10\x01"])
def test_test_data_that_is_no_tensor_is_an_error(data, tmp_path):
    (tmp_path / "input_0.pb").write_bytes(data)
    with pytest.raises(UsageError, match="is no TensorProto with data"):
        load_feeds(tmp_path, X)


def test_test_data_never_follows_external_data(tmp_path):
    (tmp_path / "secret").write_bytes(array(1).tobytes())
    tensor = onnx.TensorProto(data_type=1, dims=[1, 2, 3], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="secret")
    (tmp_path / "input_0.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(UsageError, match="another file, which is not followed"):
        load_feeds(tmp_path, X)


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
    with pytest.raises(UsageError, match="gave 3 samples when they were checked and 2 afterwards"):
        list(feeds)


def test_the_command_line_takes_a_script_and_keeps_stdout_for_the_report(tmp_path):
    model = make_model([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 2)}, {"y": (1, 2)}, {})
    onnx.save(model, tmp_path / "m.onnx")
    body = "import numpy\nprint('hello')\ndef batches():\n    yield {'x': numpy.ones((1, 2), numpy.float32)}"
    script = save_script(tmp_path, body)
    done = qdqtool("check", tmp_path / "m.onnx", "--data", f"{script}:batches", "--output-format", "json")
    assert done.code == 0, done.err
    assert json.load(io.StringIO(done.out))["data"]["samples"] == 1
