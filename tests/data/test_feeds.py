"""Data files are checked before anything runs; random feeds are seeded and fit the model."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from support.qdq import LOOP_AND_BRANCHES, text_model
from support.small import make_model, matmul_model

from qdqtool.data import Feeds, InputSpec, input_specs, load_feeds, random_feeds, with_shapes
from qdqtool.errors import CapabilityError, UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model

F32 = np.dtype(np.float32)
SPECS = (InputSpec("image", F32, (1, 3, 4)), InputSpec("length", np.dtype(np.int64), ()))
DYNAMIC = (InputSpec("x", F32, ("N", 8)),)


def save(folder: Path, **arrays: object) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


def image(samples: int = 2, dtype: type = np.float32) -> np.ndarray:
    return np.arange(samples * 12).reshape(samples, 3, 4).astype(dtype)


LENGTH = np.array([5, 6], np.int64)


# --- reading ---


def test_samples_come_one_by_one_along_the_first_axis(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, image=image(), length=LENGTH), SPECS)
    assert len(feeds) == 2
    first, second = feeds
    assert first["image"].shape == (1, 3, 4)
    assert second["image"].tolist() == image()[1:].tolist()
    assert (first["length"].shape, int(second["length"])) == ((), 6)
    assert [s["image"].tolist() for s in feeds] == [first["image"].tolist(), second["image"].tolist()]  # again
    assert feeds.description.shapes == {"image": (1, 3, 4), "length": ()}


def test_a_fixed_batch_takes_its_rows_and_a_dynamic_one_takes_one(tmp_path: Path) -> None:
    fixed = (InputSpec("x", F32, (4, 8)),)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    path = save(tmp_path, x=x)
    assert [sample["x"].tolist() for sample in load_feeds(path, fixed)] == [x[:4].tolist(), x[4:].tolist()]
    assert [sample["x"].shape for sample in load_feeds(path, DYNAMIC)] == [(1, 8)] * 8


def test_one_axis_more_means_one_whole_input_a_row(tmp_path: Path) -> None:
    state = np.arange(24, dtype=np.float32).reshape(3, 2, 1, 4)
    feeds = load_feeds(save(tmp_path, state=state), (InputSpec("state", F32, (2, "batch", 4)),))
    assert [sample["state"].tolist() for sample in feeds] == state.tolist()


def test_a_scalar_is_the_same_in_every_sample(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, image=image(), length=np.int64(7)), SPECS)
    assert [int(sample["length"]) for sample in feeds] == [7, 7]


@pytest.mark.parametrize("save_with", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_compressed_and_fortran_ordered_arrays_read_the_same(tmp_path: Path, save_with: object, order: str) -> None:
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    save_with(tmp_path / "d.npz", x=np.asarray(x, order=order))
    assert np.concatenate([sample["x"] for sample in load_feeds(tmp_path / "d.npz", DYNAMIC)]).tolist() == x.tolist()


def test_only_so_many_samples_are_used_when_told(tmp_path: Path) -> None:
    feeds = load_feeds(save(tmp_path, x=np.zeros((9, 8), np.float32)), DYNAMIC, limit=4)
    assert (len(feeds), len(list(feeds)), feeds.description.samples) == (4, 4, 4)


# --- refusing ---


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"imagee": image(), "length": LENGTH},
            "'imagee' is no input of the model; its inputs: image, length; did you mean 'image'",
        ),
        ({"image": image()}, "input 'length' is missing; found: image"),
        ({"image": image(dtype=np.float64), "length": LENGTH}, "'image' has type float64; the model takes float32"),
        (
            {"image": image()[..., :2], "length": LENGTH},
            r"'image' has shape \[1, 3, 2\]; the model takes image: float32 \[1, 3, 4\]",
        ),
        ({"image": image()[0, 0], "length": LENGTH}, r"'image' has shape \[4\]"),
        ({"image": image(3), "length": LENGTH}, "different number of samples for each input: image 3, length 2"),
        ({"image": image(0), "length": LENGTH[:0]}, "has no samples"),
        ({"image": np.array([None, image()], object), "length": LENGTH}, "pickled Python objects"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_feeds(save(tmp_path, **arrays), SPECS)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place_in_any_sample(tmp_path: Path, bad: float) -> None:
    x = np.zeros((3, 8), np.float32)
    x[2, 5] = bad
    with pytest.raises(UsageError, match=rf"sample 2: input 'x' is {bad} at \[0, 5\]"):
        load_feeds(save(tmp_path, x=x), DYNAMIC)


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with pytest.raises(UsageError, match="no such file"):
        load_feeds(path, DYNAMIC)
    path.write_bytes(b"not a zip file at all")
    with pytest.raises(UsageError, match="not a readable"):
        load_feeds(path, DYNAMIC)
    other = tmp_path / "data.csv"
    other.write_text("1,2")
    with pytest.raises(UsageError, match=r"of no known kind; legal: .*\.npz file"):
        load_feeds(other, DYNAMIC)


def test_a_truncated_archive_and_a_lying_header_are_refused(tmp_path: Path) -> None:
    whole = save(tmp_path, x=np.zeros((3, 8), np.float32)).read_bytes()
    cut = tmp_path / "cut.npz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="not a readable"):
        load_feeds(cut, DYNAMIC)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 8)})
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(64))
    with pytest.raises(UsageError, match="'x' is damaged: 64 bytes of data"):
        load_feeds(tmp_path / "lie.npz", DYNAMIC)


# --- shapes ---


def test_input_shapes_must_fit_the_model() -> None:
    assert with_shapes(DYNAMIC, {"x": (5, 8)})[0].shape == (5, 8)
    with pytest.raises(UsageError, match="contradicts the model"):
        with_shapes(DYNAMIC, {"x": (5, 9)})
    with pytest.raises(UsageError, match="no input; the inputs are x"):
        with_shapes(DYNAMIC, {"y": (5, 9)})


# --- random ---


def random_for(model: Model, shapes: dict[str, tuple[int, ...]] | None = None, seed: int = 0) -> Feeds:
    specs = with_shapes(input_specs(model), shapes or {})
    return random_feeds(ModelIndex.of(model), specs, seed=seed)


def test_the_same_seed_gives_the_same_samples_and_another_seed_others() -> None:
    model = Model(matmul_model())
    first, again, other = (random_for(model, seed=seed) for seed in (3, 3, 4))
    bits = [[sample["x"].tobytes() for sample in feeds] for feeds in (first, again, other)]
    assert bits[0] == bits[1] != bits[2]
    assert len(set(bits[0])) == len(first) == 4
    assert (first.description.source, first.description.seed) == ("random", 3)


def test_batch_dimensions_are_one_wherever_their_name_stands() -> None:
    nodes = [helper.make_node("Identity", ["a"], ["y"]), helper.make_node("Identity", ["b"], ["z"])]
    model = make_model(nodes, {"a": ("n", 3), "b": (2, "n", 4)}, {"y": ("n", 3), "z": (2, "n", 4)}, {})
    assert random_for(Model(model)).description.shapes == {"a": (1, 3), "b": (2, 1, 4)}


def test_other_open_dimensions_ask_for_the_option() -> None:
    nodes = [helper.make_node("Identity", ["a"], ["y"])]
    model = Model(make_model(nodes, {"a": ("n", 3, "h", "w")}, {"y": ("n", 3, "h", "w")}, {}))
    with pytest.raises(UsageError, match="open dimensions") as caught:
        random_for(model)
    assert "--input-shapes a:1x3xhxw" in (caught.value.hint or "")
    assert random_for(model, {"a": (2, 3, 5, 6)}).description.shapes == {"a": (2, 3, 5, 6)}


def test_integers_stay_inside_the_tables_that_they_index() -> None:
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [1000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1000, 2])],
        [helper.make_tensor("table", TensorProto.FLOAT, [3, 2], [0.0] * 6)],
    )
    model = Model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    values = np.concatenate([sample["ids"] for sample in random_for(model)])
    assert (values.dtype, set(values.tolist())) == (np.int32, {0, 1, 2})


def test_scalars_booleans_and_integers_are_drawn() -> None:
    samples = list(random_for(text_model(LOOP_AND_BRANCHES)))
    assert {sample["c"].dtype for sample in samples} == {np.dtype(bool)}
    assert all(0 <= int(sample["n"]) < 10 for sample in samples)


@pytest.mark.parametrize("elem_type", [TensorProto.STRING, TensorProto.INT4])
def test_types_that_cannot_be_fed_are_a_missing_capability(elem_type: int) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    model = make_model(nodes, {"x": (1,)}, {"y": (1,)}, {}, elem_type=elem_type)
    with pytest.raises(CapabilityError, match=r"input 'x' has type (string|int4), which"):
        input_specs(Model(model))
