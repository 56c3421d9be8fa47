"""The runner of TensorRT on a pretended GPU: memory, shapes, times and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from support.host_gpu import Network, install

from qdqtool.engines.gpu.runner import LayerTime
from qdqtool.engines.gpu.tensorrt_runner import TensorRTRunner
from qdqtool.errors import CapabilityError, GateError, ModelError, UsageError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
DOUBLE = Network({"x": ("FLOAT", (2, 3))}, {"y": ("FLOAT", (2, 3))}, lambda x: {"y": 2 * x})
RANGE = {"x": ((1, 3), (4, 3), (8, 3))}
NETWORKS = {
    "double": DOUBLE,
    "dynamic": Network({"x": ("FLOAT", (-1, 3))}, {"y": ("FLOAT", (2, 3))}, lambda x: {"y": x + 1}, ranges=RANGE),
    "half": Network({"x": ("HALF", (2, 3))}, {"y": ("HALF", (2, 3))}, lambda x: {"y": -x}),
    "scalar": Network({"x": ("FLOAT", ())}, {"y": ("FLOAT", ())}, lambda x: {"y": x + 1}),
    "positive": Network(
        {"x": ("FLOAT", (-1, 3))}, {"y": ("INT64", (-1, 2))}, lambda x: {"y": np.argwhere(x > 2)}, ranges=RANGE
    ),
    "reshape": Network(
        {"x": ("FLOAT", (2, 3)), "shape": ("INT64", (2,))},
        {"y": ("FLOAT", (3, 2)), "size": ("INT64", (1,))},
        lambda x, shape: {"y": x.reshape(tuple(shape)) if shape.prod() == 6 else x, "size": np.array([6])},
        on_host=("shape", "size"),
    ),
    "vectors": Network({"x": ("FLOAT", (2, 3))}, {}, lambda x: {}, layouts={"x": "CHW4"}),
    "codes": Network({"x": ("INT4", (2, 3))}, {}, lambda x: {}),
    "failing": Network({"x": ("FLOAT", (2, 3))}, {"y": ("FLOAT", (2, 3))}, lambda x: {"y": x}, fails=True),
    "layers": Network(
        {"x": ("FLOAT", (2, 3))},
        {"y": ("FLOAT", (2, 3))},
        lambda x: {"y": x},
        layers={"first": 0.25, "second": 0.5},
        nodes={"first": ("conv", "relu")},
    ),
}


@pytest.fixture
def machine(monkeypatch):
    return install(monkeypatch, NETWORKS)


@pytest.fixture
def opened(machine, tmp_path: Path):
    """A function that loads a network; all are closed in the end, and nothing is left on the GPU."""
    runners = []

    def load(name: str) -> TensorRTRunner:
        (tmp_path / name).write_bytes(b"vtrt" + name.encode())
        runners.append(TensorRTRunner(tmp_path / name, "tensorrt-rtx"))
        return runners[-1]

    yield load
    for runner in runners:
        runner.__exit__()
    assert machine.memory == {}
    assert machine.events == {}
    assert machine.streams == set()


def test_an_engine_has_the_inputs_and_outputs_of_its_file(opened):
    runner = opened("dynamic")
    assert [str(spec) for spec in runner.inputs] == ["x: float32 [?, 3]"]
    assert runner.outputs == ("y",)
    assert (runner.library, runner.version, runner.clock) == ("tensorrt-rtx", "1.7.1", "gpu")


def test_outputs_are_those_of_the_network(opened):
    runner = opened("double")
    for factor in (1, 3):
        outputs = runner.run({"x": factor * X})
        assert list(outputs) == ["y"]
        assert np.array_equal(outputs["y"], 2 * factor * X)


def test_an_array_in_another_order_is_copied_row_by_row(opened):
    assert np.array_equal(opened("double").run({"x": np.asfortranarray(X)})["y"], 2 * X)


def test_scalars_stay_scalars(opened):
    assert opened("scalar").run({"x": np.array(4, np.float32)})["y"].shape == ()


def test_memory_grows_with_the_sample(opened, machine):
    runner = opened("dynamic")
    for rows in (1, 8, 2):
        x = np.full((rows, 3), rows, np.float32)
        assert np.array_equal(runner.run({"x": x})["y"], x + 1)
    assert sorted(len(buffer) for buffer in machine.memory.values()) == [96, 96]


def test_float16_is_fed_as_float16(opened):
    assert np.array_equal(opened("half").run({"x": X.astype(np.float16)})["y"], -X.astype(np.float16))


def test_an_output_whose_shape_only_the_values_tell(opened):
    runner = opened("positive")
    for rows in ([[0, 0, 3], [4, 0, 0]], [[0, 0, 0]], [[5, 5, 5]]):
        x = np.array(rows, np.float32)
        assert np.array_equal(runner.run({"x": x})["y"], np.argwhere(x > 2))


def test_no_memory_for_such_an_output_is_told_as_it_is(opened, machine):
    runner = opened("positive")
    machine.most = 40
    with pytest.raises(CapabilityError, match=r"CUDA fails: out of memory \(cudaMalloc, cudaErrorMemoryAllocation\)"):
        runner.run({"x": np.full((2, 3), 5, np.float32)})


def test_values_that_decide_shapes_lie_on_the_host(opened, machine):
    runner = opened("reshape")
    outputs = runner.run({"x": X, "shape": np.array([3, 2])})
    assert np.array_equal(outputs["y"], X.reshape(3, 2))
    assert outputs["size"].tolist() == [6]
    assert len(machine.memory) == 2  # x and y alone


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((9, 3), np.float32), r"'x' has shape 9x3; the engine was built for 1x3 to 8x3"),
        (np.zeros((0, 3), np.float32), r"'x' has shape 0x3"),
        (np.zeros((2, 4), np.float32), r"'x' has shape 2x4"),
        (np.zeros((2, 3, 1), np.float32), r"'x' has shape 2x3x1"),
        (np.zeros((2, 3)), r"'x' has type float64; the engine takes float32"),
        (np.zeros((2, 3), np.int64), r"'x' has type int64; the engine takes float32"),
    ],
)
def test_a_sample_that_the_engine_was_not_built_for_is_refused(array, says, opened, machine):
    runner = opened("dynamic")
    with pytest.raises(UsageError, match=says):
        runner.run({"x": array})
    assert machine.now == 0


@pytest.mark.parametrize("rows", [1, 8])
def test_the_ends_of_the_range_are_in_it(rows, opened):
    assert opened("dynamic").run({"x": np.zeros((rows, 3), np.float32)})["y"].shape == (rows, 3)


def test_a_fixed_shape_is_the_only_one(opened):
    with pytest.raises(UsageError, match=r"has shape 1x3; the engine was built for 2x3$"):
        opened("double").run({"x": X[:1]})


@pytest.mark.parametrize(("name", "says"), [("vectors", "layout CHW4"), ("codes", "type INT4")])
def test_tensors_that_numpy_cannot_hold_are_refused(name, says, opened):
    with pytest.raises(CapabilityError, match=f"'x' has .*{says}"):
        opened(name)


def test_a_file_that_is_no_engine_is_refused_with_the_last_error(machine, tmp_path):
    (tmp_path / "e").write_bytes(b"no engine")
    with pytest.raises(ModelError, match=r"tensorrt-rtx 1.7.1 cannot load .*e on this GPU: the magic tag"):
        TensorRTRunner(tmp_path / "e", "tensorrt-rtx")
    with pytest.raises(ModelError, match="absent cannot be read: No such file"):
        TensorRTRunner(tmp_path / "absent", "tensorrt-rtx")


def test_an_engine_that_does_not_run_is_an_error_and_gives_no_times(opened):
    runner = opened("failing")
    for attempt in (
        lambda: runner.run({"x": X}),
        lambda: runner.time({"x": X}, warm_up=0, runs=1),
        lambda: runner.profile({"x": X}, runs=1),
    ):
        with pytest.raises(GateError, match="the engine does not run: tensorrt-rtx does not say why"):
            attempt()


def test_each_time_is_that_of_one_inference_and_warm_up_does_not_count(opened, machine):
    times = opened("layers").time({"x": X}, warm_up=3, runs=5)
    assert times == [0.75] * 5
    assert machine.now == 8 * 0.75


def test_layers_have_their_mean_time_and_their_nodes(opened):
    assert opened("layers").profile({"x": X}, runs=4) == (
        LayerTime("first", ("conv", "relu"), 0.25),
        LayerTime("second", (), 0.5),
    )


def test_an_example_has_the_shape_that_kernels_were_chosen_for(opened):
    assert [spec.shape for spec in opened("dynamic").example_inputs()] == [(4, 3)]
    with pytest.raises(UsageError, match="values of input 'shape' decide shapes"):
        opened("reshape").example_inputs()
