"""Writing models: whole or not at all, and readable by others."""

import errno
import hashlib
import itertools
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from support.small import conv_model, run

from qdqtool.errors import OutputError, UsageError
from qdqtool.models.graph.io import data_file
from qdqtool.models.graph.io import save as save_module
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.model_file import describe_file
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.io.tensors import make_tensor, pending_tensor, read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.models.payload import Payload

X = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def only_data(folder: Path) -> Path:
    """The one data file of the folder, whose name has its digest."""
    (path,) = folder.glob("*.data")
    assert path.name == f"a.onnx.{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.data"
    return path


def with_weight(value: float) -> Model:
    """A model with 5,000 equal weights, which go to a data file."""
    proto = conv_model()
    proto.graph.initializer.append(make_tensor("more", np.full(5000, value, np.float32), onnx.TensorProto.FLOAT))
    return Model(proto)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("moment", range(3))
def test_whenever_the_process_is_killed_a_model_has_its_own_data(moment: int, tmp_path: Path) -> None:
    save_model(with_weight(1), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    child = os.fork()
    if not child:
        steps = itertools.count()

        def killing(do: Callable[..., object]) -> Callable[..., object]:
            def step(*arguments: object, **keywords: object) -> object:
                if next(steps) == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                return do(*arguments, **keywords)

            return step

        vars(os).update(replace=killing(os.replace), unlink=killing(os.unlink))
        save_model(with_weight(2), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    model = load_model(tmp_path / "a.onnx")
    value = read_array(model, model.proto.graph.initializer[-1])
    assert np.array_equal(value, np.full(5000, 1 if moment < 2 else 2, np.float32))
    save_model(with_weight(3), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    only_data(tmp_path)


def test_data_of_an_earlier_model_goes_and_that_of_another_model_stays(tmp_path: Path) -> None:
    (tmp_path / "ba.onnx.0123456789abcdef.data").write_text("of ba.onnx")
    (tmp_path / "a.onnx.data").write_text("of another tool")
    save_model(with_weight(1), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    save_model(with_weight(2), tmp_path / "a.onnx", external_data=ExternalData.NEVER)
    assert listing(tmp_path) == ["a.onnx", "a.onnx.data", "ba.onnx.0123456789abcdef.data"]


def test_data_that_the_model_was_read_from_stays(tmp_path: Path) -> None:
    first = save_model(with_weight(1), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    first.model.rename(tmp_path / "moved.onnx")
    save_model(load_model(tmp_path / "moved.onnx"), tmp_path / "a.onnx", external_data=ExternalData.NEVER)
    assert first.data is not None
    assert first.data.exists()


def test_inline_round_trip_is_byte_identical(tmp_path: Path) -> None:
    proto = conv_model()
    saved = save_model(Model(proto), tmp_path / "a.onnx")
    assert saved.data is None
    assert saved.model.read_bytes() == proto.SerializeToString(deterministic=True)
    assert listing(tmp_path) == ["a.onnx"]


def test_external_data_is_copied_through_and_read_back_by_others(tmp_path: Path) -> None:
    proto = conv_model()
    large = np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)
    proto.graph.initializer.append(make_tensor("unused", large, onnx.TensorProto.FLOAT))
    saved = save_model(Model(proto), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    assert saved.data == only_data(tmp_path)
    again = save_model(load_model(saved.model), tmp_path / "b.onnx")
    assert again.data is not None
    assert again.data.read_bytes() == saved.data.read_bytes()
    read = onnx_ir.load(again.model)
    assert np.array_equal(read.graph.initializers["unused"].const_value.numpy(), large)
    assert np.array_equal(run(str(again.model), X)[0], run(proto, X)[0])


def test_large_tensors_are_page_aligned_and_small_ones_stay_inline(tmp_path: Path) -> None:
    proto = conv_model()
    for name in ("first", "second"):
        proto.graph.initializer.append(make_tensor(name, np.zeros(5000, np.float32), onnx.TensorProto.FLOAT))
    saved = save_model(Model(proto), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    entries = {tensor.name: tensor for tensor in onnx.load(saved.model, load_external_data=False).graph.initializer}
    offsets = [int(e.value) for n in ("first", "second") for e in entries[n].external_data if e.key == "offset"]
    assert offsets == [0, 20480]
    assert entries["b"].raw_data


def test_pending_tensors_are_made_when_saved_inline_or_outside(tmp_path: Path) -> None:
    codes = np.arange(3000, dtype=np.int8)
    for choice in ExternalData:
        model = Model(conv_model())
        payload = Payload(codes.nbytes, codes.tobytes)
        model.proto.graph.initializer.append(pending_tensor(model, "codes", (3000,), onnx.TensorProto.INT8, payload))
        saved = save_model(model, tmp_path / f"{choice.value}.onnx", external_data=choice)
        loaded = load_model(saved.model)
        assert np.array_equal(read_array(loaded, loaded.proto.graph.initializer[-1]), codes)


def test_a_model_past_the_limit_gets_external_data_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_module, "INLINE_LIMIT", 2000)
    model = Model(conv_model())
    payload = Payload(4000, lambda: b"\1" * 4000)
    model.proto.graph.initializer.append(pending_tensor(model, "codes", (4000,), onnx.TensorProto.INT8, payload))
    assert save_model(model, tmp_path / "a.onnx").data == only_data(tmp_path)
    with pytest.raises(UsageError, match="exceeds 2 GiB"):
        save_model(model, tmp_path / "b.onnx", external_data=ExternalData.NEVER)


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    saved = save_model(Model(conv_model()), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    before = saved.model.read_bytes()
    (tmp_path / "link.onnx").symlink_to(saved.model)
    for output in ("a.onnx", "link.onnx"):
        with pytest.raises(UsageError, match="also an input"):
            save_model(load_model(saved.model), tmp_path / output)
    assert saved.model.read_bytes() == before


def test_missing_and_unwritable_folders(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        save_model(Model(conv_model()), tmp_path / "absent" / "a.onnx")
    with pytest.raises(OutputError, match="is a folder"):
        save_model(Model(conv_model()), tmp_path)


@pytest.mark.parametrize(("code", "message"), [(errno.ENOSPC, "no space left"), (errno.EACCES, "Permission denied")])
def test_a_failing_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    target = tmp_path / "a.onnx"
    target.write_bytes(b"old")

    def fail(_handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match=message):
        save_model(Model(conv_model()), target, external_data=ExternalData.ALWAYS)
    assert listing(tmp_path) == ["a.onnx"]
    assert target.read_bytes() == b"old"


def test_an_interrupt_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    model = Model(conv_model())
    tensor = pending_tensor(model, "codes", (4000,), onnx.TensorProto.INT8, Payload(4000, interrupted))
    model.proto.graph.initializer.append(tensor)
    for choice in (ExternalData.ALWAYS, ExternalData.AUTO):
        with pytest.raises(KeyboardInterrupt):
            save_model(model, tmp_path / "a.onnx", external_data=choice)
    assert listing(tmp_path) == []


def test_a_model_goes_whole_into_a_stream(tmp_path: Path) -> None:
    outside = save_model(Model(conv_model()), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS).model
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(pipe.read_bytes)
        saved = save_model(load_model(outside), pipe)
    assert (saved.data, saved.bytes) == (None, len(received.result()))
    assert run(onnx.load_from_string(received.result()), X)[0].any()
    with pytest.raises(UsageError, match="cannot be written beside it"):
        save_model(load_model(outside), Path("/dev/null"), external_data=ExternalData.ALWAYS)


def test_a_failing_model_file_leaves_the_data_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.onnx"
    save_model(Model(conv_model()), target, external_data=ExternalData.ALWAYS)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = conv_model()
    other.graph.initializer.append(make_tensor("more", np.ones(5000, np.float32), onnx.TensorProto.FLOAT))
    calls: list[int] = []

    def fail_second(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail_second)
    with pytest.raises(OutputError, match="no space left"):
        save_model(Model(other), target, external_data=ExternalData.ALWAYS)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_digests_are_those_of_the_files(tmp_path: Path) -> None:
    proto = conv_model()
    proto.graph.initializer.append(make_tensor("more", np.ones(5000, np.float32), onnx.TensorProto.FLOAT))
    for choice in ExternalData:
        saved = save_model(Model(proto), tmp_path / f"{choice.value}.onnx", external_data=choice)
        assert saved.file == describe_file(load_model(saved.model))
    assert save_model(Model(proto), Path("/dev/null")).file is None


def test_parts_of_a_tensor_are_written_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the system is told to put what was written on the disk meanwhile."""
    monkeypatch.setattr(data_file, "_SYNC", 100)
    parts = [bytes([number]) * 40 for number in range(100)]
    payload = Payload.in_parts(4000, lambda: (partial(bytes, part) for part in parts))
    assert payload.make() == b"".join(parts)
    model = Model(conv_model())
    model.proto.graph.initializer.append(pending_tensor(model, "codes", (4000,), onnx.TensorProto.INT8, payload))
    saved = save_model(model, tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    assert saved.data is not None
    assert saved.data.read_bytes() == b"".join(parts)


def test_data_that_ends_early_while_it_is_copied_is_an_error(tmp_path: Path) -> None:
    proto = conv_model()
    proto.graph.initializer.append(make_tensor("more", np.ones(5000, np.float32), onnx.TensorProto.FLOAT))
    saved = save_model(Model(proto), tmp_path / "a.onnx", external_data=ExternalData.ALWAYS)
    model = load_model(saved.model)
    assert saved.data is not None
    os.truncate(saved.data, 1000)
    with pytest.raises(OutputError, match="external data ended early"):
        save_model(model, tmp_path / "b.onnx")
    assert listing(tmp_path) == ["a.onnx", saved.data.name]


def test_a_name_that_is_no_utf_8_is_refused_only_where_the_model_must_hold_it(tmp_path: Path):
    path = tmp_path / os.fsdecode(b"m\xe9.onnx")
    save_model(Model(conv_model()), path, external_data=ExternalData.NEVER)
    assert onnx.load(path) == conv_model()
    before = path.read_bytes()
    with pytest.raises(OutputError, match="a name that is no UTF-8; the model must name its data file"):
        save_model(Model(conv_model()), path, external_data=ExternalData.ALWAYS)
    assert listing(tmp_path) == [path.name]
    assert path.read_bytes() == before
