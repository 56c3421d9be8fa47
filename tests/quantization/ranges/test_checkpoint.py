"""Shards, merging, interrupting and going on: however a calibration is cut, the ranges file has the same bytes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command import qdqtool, qdqtool_process
from support.small import conv_model, make_model, nodes_of

from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import CalibrationPlace, calibrate, calibrate_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.graph.model import Model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges import checkpoint
from qdqtool.quantization.ranges.checkpoint import Interrupted
from qdqtool.quantization.ranges.file import encode_ranges, read_ranges
from qdqtool.quantization.ranges.shard import Shard, merge_ranges
from qdqtool.quantization.ranges.types import CHUNK
from qdqtool.samples.request import RandomData

COUNT = 5 * CHUNK + 3
RECIPES = {method: Recipe(method=method) for method in ("max", "entropy")}


def data(folder: Path, count: int = COUNT) -> Path:
    """Samples whose magnitudes grow, so that histograms are widened on the way."""
    x = np.random.default_rng(5).normal(size=(count, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x * np.linspace(0.1, 9, count, dtype=np.float32)[:, None, None, None])
    return folder / "data.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    onnx.save(conv_model(), folder / "m.onnx")
    data(folder)
    return folder


@pytest.fixture(scope="module")
def whole(folder: Path) -> dict[str, bytes]:
    """What one run gives, by method."""
    found = {name: calibrate(folder / "m.onnx", folder / "data.npz", recipe) for name, recipe in RECIPES.items()}
    return {name: encode_ranges(ranges) for name, ranges in found.items()}


@settings(max_examples=4, deadline=None)
@given(of=st.integers(1, 6), method=st.sampled_from(list(RECIPES)), random=st.randoms())
@pytest.mark.slow(reason="many calibrations")
def test_any_number_of_shards_gives_the_bytes_of_one_run(folder, whole, of, method, random):
    places = [CalibrationPlace(shard=Shard(number, of)) for number in range(1, of + 1)]
    arguments = folder / "m.onnx", folder / "data.npz", RECIPES[method]
    shards = [("", calibrate(*arguments, place=place)) for place in places]
    random.shuffle(shards)
    assert encode_ranges(merge_ranges(shards)) == whole[method]


@given(samples=st.integers(1, 2000), of=st.integers(1, 130))
def test_shards_are_cut_between_chunks_and_cover_every_sample_once(samples, of):
    chunks = -(-samples // CHUNK)
    if of > chunks:
        with pytest.raises(UsageError, match=f"{samples} samples cannot be cut into {of} shards") as caught:
            Shard(1, of).part(samples)
        most = f"at most {chunks} are possible: `--shard 1/{chunks}`"
        assert caught.value.hint == ("leave the option out" if chunks == 1 else most)
        return
    parts = [Shard(number, of).part(samples) for number in range(1, of + 1)]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == samples
    sizes = [-(-(part.stop - part.start) // CHUNK) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all(part.start % CHUNK == 0 for part in parts)


def test_the_command_line_merges_shards_to_the_same_bytes(folder, whole, tmp_path):
    base = ("calibrate", folder / "m.onnx", "--calib-data", folder / "data.npz", "--calibration-method", "entropy")
    for number in (1, 2):
        done = qdqtool(*base, "--shard", f"{number}/2", "-o", tmp_path / f"{number}.json")
        assert done.code == 0, done.err
    assert "35 of 83 samples (shard 2/2)" in done.out.replace("\n", " ")
    done = qdqtool("merge", tmp_path / "2.json", tmp_path / "1.json", "-o", tmp_path / "all.json")
    assert done.code == 0, done.err
    assert "ranges of 2 tensors from 2 shards, calibrated with entropy over 83 samples" in done.out
    assert (tmp_path / "all.json").read_bytes() == whole["entropy"]
    done = qdqtool("merge", tmp_path / "2.json", "-o", tmp_path / "half.json")
    assert (done.code, done.out) == (2, "")
    assert "no shard holds samples 0 to 47 of 83" in done.err


def stopped_after(count: int) -> object:
    """A progress function that ends the run as Ctrl-C does when so many samples were begun."""

    def progress(done: int, _total: int) -> None:
        if done == count:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("method", RECIPES)
@pytest.mark.parametrize("stops", [(20,), (40, 32, 80)])
def test_an_interrupted_run_goes_on_to_the_bytes_of_an_uninterrupted_one(folder, whole, tmp_path, method, stops):
    path, done = tmp_path / "r.json", 0
    for stop in stops:
        with pytest.raises(Interrupted, match=f"{max(done, stop // CHUNK * CHUNK)} of 83 samples are kept"):
            calibrate_to_file(folder / "m.onnx", folder / "data.npz", path, RECIPES[method], stopped_after(stop))
        done = read_ranges(path).samples
    report = calibrate_to_file(folder / "m.onnx", folder / "data.npz", path, RECIPES[method])
    assert report.resumed == done > 0
    assert path.read_bytes() == whole[method]


def test_an_interrupt_before_the_first_chunk_leaves_nothing(folder, tmp_path):
    with pytest.raises(Interrupted, match="nothing was left behind"):
        calibrate_to_file(folder / "m.onnx", folder / "data.npz", tmp_path / "r.json", None, stopped_after(3))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_shard_goes_on(folder, tmp_path):
    path, place = tmp_path / "r.json", CalibrationPlace(shard=Shard(2, 2))
    arguments = folder / "m.onnx", folder / "data.npz", path, RECIPES["max"]
    with pytest.raises(Interrupted, match="16 of 35 samples"):
        calibrate_to_file(*arguments, stopped_after(17), place)
    assert calibrate_to_file(*arguments, None, place).resumed == CHUNK
    expected = calibrate(folder / "m.onnx", folder / "data.npz", RECIPES["max"], place=place)
    assert path.read_bytes() == encode_ranges(expected)


def test_what_another_calibration_left_is_not_overwritten(folder, tmp_path):
    path, message = tmp_path / "r.json", "interrupted calibration with another model, data or options: 16 of 83"
    with pytest.raises(Interrupted):
        calibrate_to_file(folder / "m.onnx", folder / "data.npz", path, RECIPES["max"], stopped_after(20))
    kept = path.read_bytes()
    for source, recipe in ((data(tmp_path, 40), RECIPES["max"]), (folder / "data.npz", RECIPES["entropy"])):
        with pytest.raises(UsageError, match=message):
            calibrate_to_file(folder / "m.onnx", source, path, recipe)
    assert path.read_bytes() == kept


def test_quantize_takes_no_part_unless_told(folder, tmp_path):
    path, data, out = folder / "m.onnx", folder / "data.npz", tmp_path / "q.onnx"
    with pytest.raises(Interrupted):
        calibrate_to_file(path, data, tmp_path / "r.json", RECIPES["max"], stopped_after(40))
    options = QuantizeOptions(recipe=RECIPES["max"])
    with pytest.raises(UsageError, match="come from an interrupted calibration, with 32 of 83 samples"):
        quantize_model(path, CachedRanges(path=tmp_path / "r.json"), out, options)
    report = quantize_model(path, CachedRanges(path=tmp_path / "r.json", force=True), out, options)
    assert report.calibration.samples == 32
    calibrate_to_file(path, data, tmp_path / "s.json", RECIPES["max"], None, CalibrationPlace(shard=Shard(1, 2)))
    with pytest.raises(UsageError, match="come from a shard, with 48 of 83 samples"):
        quantize_model(path, CachedRanges(path=tmp_path / "s.json"), out, options)


def test_quantize_says_when_the_method_needs_histograms_that_are_not_there(folder, tmp_path):
    path, options = tmp_path / "r.json", QuantizeOptions(recipe=RECIPES["entropy"])
    calibrate_to_file(folder / "m.onnx", folder / "data.npz", path, RECIPES["max"])
    with pytest.raises(UsageError, match="no histograms, which method 'entropy' needs"):
        quantize_model(folder / "m.onnx", CachedRanges(path=path), tmp_path / "q.onnx", options)


def test_quantize_keeps_what_is_done_where_it_was_to_save_ranges(folder, whole, tmp_path):
    options = QuantizeOptions(recipe=RECIPES["entropy"], ranges_file=tmp_path / "r.json")
    arguments = folder / "m.onnx", folder / "data.npz", tmp_path / "q.onnx", options
    with pytest.raises(Interrupted, match="64 of 83 samples"):
        quantize_model(*arguments, stopped_after(70))
    quantize_model(*arguments)
    assert (tmp_path / "r.json").read_bytes() == whole["entropy"]


KILLS_ITSELF = """
import os, signal, sys
from pathlib import Path
from qdqtool.quantization.ranges import checkpoint
from qdqtool.jobs.calibrate import Recipe, calibrate_to_file

def kill(done, total):
    if done == 50:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.INTERVAL, checkpoint.SHARE = 0.0, 1e9
calibrate_to_file(*map(Path, sys.argv[1:]), Recipe(method="entropy"), kill)
"""


def test_a_killed_run_goes_on_from_what_its_file_holds(folder, whole, tmp_path):
    path = tmp_path / "r.json"
    words = [str(folder / "m.onnx"), str(folder / "data.npz"), str(path)]
    killed = subprocess.run([sys.executable, "-c", KILLS_ITSELF, *words], check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert read_ranges(path).samples == 3 * CHUNK
    report = calibrate_to_file(*map(Path, words), RECIPES["entropy"])
    assert report.resumed == 3 * CHUNK
    assert path.read_bytes() == whole["entropy"]


HANGS_ONCE = """
import time
from pathlib import Path
import numpy as np
here = Path(__file__).parent

def load_data():
    # The samples are read for a check and for the statistics of channels first.
    started = here / "started"
    started.open("a").write("x")
    is_calibration = started.stat().st_size == 3
    for number, row in enumerate(np.load(DATA)["x"]):
        if number == 60 and is_calibration and not (here / "hangs").exists():
            (here / "hangs").touch()
            time.sleep(60)
        yield {"x": row[None]}
"""


@pytest.mark.slow(reason="a process that is interrupted")
def test_ctrl_c_on_the_command_line_says_what_is_kept(folder, whole, tmp_path):
    script, path = tmp_path / "hangs_once.py", tmp_path / "r.json"
    script.write_text(HANGS_ONCE.replace("DATA", repr(str(folder / "data.npz"))))
    words = ["calibrate", folder / "m.onnx", "--calib-data", script, "-o", path, "--calibration-method", "max"]
    process = subprocess.Popen(
        [sys.executable, "-m", "qdqtool", *map(str, words)], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "hangs").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; 48 of 83 samples are kept in" in err.decode()
    done = qdqtool_process(*words)
    assert done.code == 0, done.err
    assert "continued after 48 samples" in done.out
    assert path.read_bytes() == whole["max"]


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_writing_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    clock, written = Clock(), []

    def slow(path: Path, encoded: bytes) -> None:
        del path, encoded
        clock.now += 2.0
        written.append(clock.now)

    monkeypatch.setattr(checkpoint, "write_output", slow)
    kept = checkpoint.RangesCheckpoint(tmp_path / "r.json", clock)
    ranges = calibrate(Model(conv_model()), RandomData(samples=1))
    for _ in range(200):
        clock.now += 1.0
        kept.offer(lambda: ranges)
    assert written == [7.0, 49.0, 91.0, 133.0, 175.0]


SHUFFLED = """
import numpy as np
passes = 0
def load_data():
    global passes
    passes += 1
    for i in range(20):
        last = i + (passes if i == 17 else 0)
        yield {'x': np.linspace(-1, last, 192, dtype=np.float32).reshape(1, 3, 8, 8)}
"""


def test_samples_that_change_between_checking_and_running_are_named(folder, tmp_path):
    (tmp_path / "shuffled.py").write_text(SHUFFLED)
    with pytest.raises(UsageError, match="changed since it was checked"):
        calibrate(folder / "m.onnx", tmp_path / "shuffled.py")


def test_histograms_are_those_of_every_activation_that_a_run_returns(folder):
    """The oracle: ONNX Runtime with each tensor as an output, all values kept, counted by np.histogram."""
    proto = conv_model()
    proto.graph.output.append(onnx.ValueInfoProto(name="r"))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    with np.load(folder / "data.npz") as stored:
        x = stored["x"]
    values = {"x": x, "r": np.concatenate([session.run(["r"], {"x": row[None]})[0] for row in x])}
    found = calibrate(folder / "m.onnx", folder / "data.npz", RECIPES["entropy"]).tensors
    assert [name for _, name in found] == list(values)
    for (_, name), seen in found.items():
        histogram, sizes = seen.histogram, np.abs(values[name].astype(np.float64)).ravel()
        assert histogram.zeros == np.count_nonzero(sizes == 0)
        assert np.array_equal(histogram.counts, np.histogram(sizes[sizes > 0], histogram.edges())[0])
        assert len(histogram.counts) / 2 <= seen.amax / 2.0**histogram.exponent < len(histogram.counts)


PEAK = """
import sys
from pathlib import Path
from qdqtool.jobs.calibrate import Recipe, calibrate
calibrate(Path(sys.argv[1]), Path(sys.argv[2]), Recipe(method="entropy"))
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow(reason="memory of hundreds of megabytes")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_histograms_take_no_more_memory_for_more_samples(tmp_path):
    """288 samples more would take 57 MB as inputs alone; the counts of one tensor take 128 KB."""
    nodes = nodes_of("c = Conv <pads = [1, 1, 1, 1]> (x, w)  r = Relu (c)  y = Conv (r, v)")
    weights = {"w": np.full((8, 3, 3, 3), 0.1, np.float32), "v": np.full((1, 8, 1, 1), 0.1, np.float32)}
    model = tmp_path / "m.onnx"
    onnx.save(make_model(nodes, {"x": ("n", 3, 128, 128)}, {"y": ("n", 1, 128, 128)}, weights), model)
    peaks = {}
    for count in (32, 320):
        path = tmp_path / f"{count}.npz"
        np.savez(path, x=np.random.default_rng(0).random((count, 3, 128, 128), np.float32))
        words = [sys.executable, "-c", PEAK, str(model), str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
        peaks[count] = int(done.stdout)
    assert peaks[320] <= 1.1 * peaks[32], peaks
