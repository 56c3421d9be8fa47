"""Outputs: files are replaced, links stay, and devices, pipes and descriptors are written into."""

import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from qdqtool.errors import OutputError
from qdqtool.models.graph.io.output import check_output, destination, staged, together, write_output


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_usual_mode(tmp_path: Path):
    write_output(tmp_path / "r.json", b"{}")
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "r.json").read_bytes() == b"{}"
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o666 & ~mask


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path):
    path = tmp_path / "r.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with path.open("rb") as reader:
        write_output(path, b"new")
        assert (path.read_bytes(), reader.read()) == (b"new", b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path, exists: bool):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    real = tmp_path / "b" / "real.json"
    if exists:
        real.write_bytes(b"old")
        real.chmod(0o600)
    (tmp_path / "a" / "second").symlink_to("../b/real.json")
    (tmp_path / "first").symlink_to("a/second")
    write_output(tmp_path / "first", b"new")
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "a" / "second").is_symlink()
    assert real.read_bytes() == b"new"
    assert not real.is_symlink()
    assert listing(tmp_path / "b") == ["real.json"]
    if exists:
        assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_links_that_lead_nowhere(tmp_path: Path):
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OutputError, match="is a link that leads back to itself"):
        check_output(tmp_path / "circle", [])
    (tmp_path / "dangling").symlink_to("absent/file")
    with pytest.raises(OutputError, match="absent does not exist"):
        check_output(tmp_path / "dangling", [])


def test_a_pipe_is_written_into(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(pipe.read_bytes)
        write_output(pipe, b"data")
    assert received.result() == b"data"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert listing(tmp_path) == ["pipe"]


def test_devices_are_written_into(tmp_path: Path):
    (tmp_path / "link").symlink_to("/dev/full")
    for path in (Path("/dev/full"), tmp_path / "link"):
        with pytest.raises(OutputError, match="no space left on the device; the data written so far is incomplete"):
            write_output(path, b"data")
    write_output(Path("/dev/null"), b"data")
    assert all(stat.S_ISCHR(Path(name).stat().st_mode) for name in ("/dev/full", "/dev/null"))


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"])
def test_a_descriptor_is_written_to_where_it_stands(tmp_path: Path, folder: str):
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as file:
        file.write(b"before ")
        for word in (b"one ", b"two "):
            write_output(Path(folder) / str(file.fileno()), word)
        file.write(b"after")
    assert path.read_bytes() == b"before one two after"


def test_a_descriptor_that_is_not_open():
    with pytest.raises(OutputError, match="Bad file descriptor"):
        write_output(Path("/dev/fd/987"), b"")


def test_the_open_file_of_another_process_is_not_replaced():
    assert destination(Path("/proc/1/fd/1")).is_stream


def test_a_reader_that_has_gone_is_told_apart(tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        write_output(Path(f"/dev/fd/{writer}"), b"data")
    os.close(writer)


def test_nothing_reaches_a_stream_before_all_is_there(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with staged(pipe) as aside:
        # Opening the pipe would wait for a reader.
        aside.file.write_bytes(b"half")
    assert not aside.file.exists()


def write_both(first: Path, second: Path) -> None:
    with together():
        write_output(first, b"1")
        write_output(second, b"1")


def test_outputs_of_one_block_come_together_or_not_at_all(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"0")
    with together():
        write_output(tmp_path / "a", b"1")
        with together():
            write_output(tmp_path / "b", b"1")
        assert (tmp_path / "a").read_bytes() == b"0"
        assert not (tmp_path / "b").exists()
    (tmp_path / "a").write_bytes(b"2")
    with pytest.raises(OutputError, match="No such file"):
        write_both(tmp_path / "a", tmp_path / "absent" / "c")
    assert (tmp_path / "a").read_bytes() == b"2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_all_outputs_are_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int):
    replace = Path.replace

    def signaled(path: Path, target: Path) -> None:
        signal.raise_signal(number)
        replace(path, target)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    monkeypatch.setattr(Path, "replace", signaled)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_both(tmp_path / "a", tmp_path / "b")
    finally:
        signal.signal(number, before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_name_that_no_file_system_takes(tmp_path: Path):
    check_output(tmp_path / ("é" * 127), [])
    with pytest.raises(OutputError, match="has a name of 256 bytes; at most 255 are possible"):
        check_output(tmp_path / ("é" * 128), [])
