"""Whatever is wrong with a cluster is one message, soon, with the way out."""

import http.server
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.dask_cluster import DaskCluster, dask_cluster

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.quantization.cluster import connection
from qdqtool.quantization.cluster.connection import connected, local_workers


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 2)


def refused(scheduler: str) -> CapabilityError:
    with pytest.raises(CapabilityError) as caught, connected(scheduler):
        pass
    return caught.value


@pytest.mark.parametrize(
    "words",
    [
        "", "local", "local:", "local:0", "local:x", "local:257", "local:-1", "10.0.0.5:8786", "tcp://", "tcp://host",
        "tcp://host:", "tcp://host:0", "tcp://host:65536", "http://host:8786", "tcp://host:8786/path", "tcp://a b:1",
    ],
)  # fmt: skip
def test_other_words_than_addresses_are_wrong_usage(words: str):
    with pytest.raises(UsageError, match=re.escape(f"--dask is '{words}'; it must be tcp://HOST:PORT or tls://")):
        local_workers(words)


def test_addresses_and_numbers_of_local_workers():
    assert [local_workers(words) for words in ("local:1", "local:256")] == [1, 256]
    for words in ("tcp://10.0.0.5:8786", "tls://head.example.org:1", "tcp://[::1]:65535", "tcp://host:8786/"):
        assert local_workers(words) is None


def test_without_dask_the_error_has_the_install_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert refused("local:1").hint == "`pip install distributed`"


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def web_server() -> Iterator[str]:
    """A server that answers something else."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextmanager
def no_server() -> Iterator[str]:
    """A port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield f"tcp://127.0.0.1:{port}"


@pytest.mark.parametrize("server", [no_server, silent_server, web_server])
def test_what_is_no_scheduler_is_told_soon(server, soon: None, capfd: pytest.CaptureFixture[str]):
    pytest.importorskip("distributed")
    with server() as address:
        assert refused(address).message == f"no Dask scheduler answers at {address} within 2 s"
    assert "Traceback" not in capfd.readouterr().err


def test_tls_without_certificates_names_the_settings(soon: None):
    pytest.importorskip("distributed")
    assert "distributed.comm.tls.ca-file" in str(refused("tls://127.0.0.1:1").hint)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    pytest.importorskip("distributed")
    with dask_cluster(tmp_path_factory.mktemp("dask")) as found:
        yield found


def test_a_scheduler_without_workers(cluster: DaskCluster, soon: None):
    error = refused(cluster.address)
    assert error.message == f"scheduler {cluster.address} has no workers"
    assert error.hint == f"on each machine: `dask worker {cluster.address} --nthreads 1`"


@pytest.mark.parametrize(
    ("preload", "message"),
    [
        (
            "import qdqtool.results\nqdqtool.results.__version__ = '0.0.1'",
            r"worker tcp://\S+ has qdqtool 0\.0\.1, and this machine has qdqtool \d.*; other versions may give other",
        ),
        (
            "import onnxruntime\nonnxruntime.__version__ = '1.2.3'",
            r"worker tcp://\S+ has onnxruntime 1\.2\.3, and this machine has onnxruntime \d",
        ),
        (
            "import sys\nsys.modules['onnxruntime'] = None",
            r"worker tcp://\S+ has no onnxruntime, and this machine has onnxruntime \d",
        ),
        (
            "import sys\nsys.modules['qdqtool.quantization.cluster'] = None",
            r"worker tcp://\S+ has (no )?qdqtool .*and cannot run this \(.*No module named .*\); this machine has q",
        ),
    ],
    ids=["qdqtool", "onnxruntime", "no onnxruntime", "no qdqtool"],
)
def test_workers_have_the_versions_of_this_machine(cluster: DaskCluster, preload: str, message: str):
    worker = cluster.add_worker(preload)
    try:
        error = refused(cluster.address)
    finally:
        worker.kill()
        worker.wait()
    assert re.match(message, error.message)
    assert "in the environment of the worker" in str(error.hint)
    assert "install" in str(error.hint)


def test_a_worker_is_no_scheduler(cluster: DaskCluster, tmp_path: Path):
    worker = cluster.add_worker()
    try:
        with connected(cluster.address) as found:
            (address,) = found.workers()
        assert refused(address).message == f"{address} is a Dask worker, not a scheduler"
    finally:
        worker.kill()
        worker.wait()
