"""Connect to the workers of a Dask cluster; a failure is explained in one message."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from qdqtool.errors import CapabilityError, UsageError, plural
from qdqtool.quantization.cluster.machine import require_versions, this_machine

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10
"""Time limit in seconds for the answer of a scheduler, and for the first worker."""
GONE_SECONDS = 15.0
"""Seconds that a cluster may be without workers: a nanny restarts a lost worker within a few seconds."""
RETRIES = 2
"""Number of retries of a task that failed because of its worker, such as a full disk."""
MOST_LOCAL = 256
_LOCAL = re.compile(r"local:([0-9]{1,3})")
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})/?")

_SETTINGS = {
    # A batch of samples is larger than Dask's limit for the data of a task; BATCH_BYTES is its limit.
    "distributed.admin.large-graph-warning-threshold": "1TB",
    # Nannies set the threads of BLAS to 1; numpy may then round differently than in this process.
    "distributed.nanny.pre-spawn-environ": {},
}


class Cluster:
    """The workers of a scheduler.

    Attributes:
        name: The scheduler, as the user named it.
        seen: Addresses of all workers that were ever connected.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self.seen: set[str] = set()

    def workers(self) -> list[str]:
        """Return the addresses of the workers that are connected now."""
        with self._answering():
            found: Mapping[str, int] = self._client.nthreads()
        self.seen.update(found)
        return sorted(found)

    def require_versions(self) -> None:
        """Check the package versions of all workers, including workers without qdqtool.

        Raises:
            CapabilityError: A worker has other versions than this machine.
        """
        here = this_machine()
        with self._answering():
            found = self._client.run(this_machine, on_error="return")
        for worker, machine in sorted(found.items()):
            # A worker without qdqtool answers with an Exception that has the text of the ImportError.
            if isinstance(machine, Exception) and not _has_left(machine):
                raise self._without_qdqtool(worker, str(here["qdqtool"]), machine)
            if not isinstance(machine, Exception):
                require_versions(worker, machine, here)

    def _without_qdqtool(self, worker: str, ours: str, error: Exception) -> CapabilityError:
        with self._answering():
            answers = self._client.get_versions(packages=["qdqtool"])["workers"]
        theirs = answers.get(worker, {}).get("packages", {}).get("qdqtool")
        has = "no qdqtool" if theirs is None else f"qdqtool {theirs}"
        return CapabilityError(
            f"worker {worker} has {has} and cannot run this ({error}); this machine has qdqtool {ours}",
            hint=f"install qdqtool {ours} in the environment of the worker",
        )

    def call(self, function: Callable[..., Any], *arguments: Any, workers: list[str] | None = None) -> dict[str, Any]:
        """Call a function in each worker, alongside its tasks; return the results by worker.

        Workers that leave during the call are left out.

        Raises:
            CapabilityError: The scheduler does not answer, or the function fails in a worker.
        """
        with self._answering():
            found = self._client.run(function, *arguments, workers=workers, on_error="return")
        for worker, answer in found.items():
            if isinstance(answer, Exception) and not _has_left(answer):
                raise CapabilityError(f"worker {worker} fails: {answer}", hint="read the log of the worker")
        return {worker: answer for worker, answer in found.items() if not isinstance(answer, Exception)}

    def tell(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Make each worker call a coroutine function, without waiting; do nothing if the scheduler is gone."""
        with contextlib.suppress(Exception):
            self._client.run(function, *arguments, wait=False, on_error="ignore")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Make one worker call a function; if that worker is lost, another worker calls it again."""
        return self._client.submit(function, *arguments, pure=False, retries=RETRIES)

    def wait(self, future: Future[Any], seconds: float) -> None:
        """Return when a task is done, or after some seconds."""
        from distributed import wait

        # If the scheduler is lost, Dask cancels all tasks.
        with self._answering(), self._client.as_current(), contextlib.suppress(TimeoutError):
            wait([future], timeout=seconds)

    def cancel(self, futures: Sequence[Future[Any]]) -> None:
        """Cancel tasks; do nothing if the scheduler is gone."""
        with contextlib.suppress(Exception):
            self._client.cancel(list(futures), force=True)

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        # Dask passes on the errors of its layers: CommClosedError, OSError, TimeoutError, RuntimeError.
        except Exception as error:
            raise scheduler_gone(self.name) from error


def _has_left(error: Exception) -> bool:
    """Return whether the error of a worker is a lost connection; errors of a disk have an errno."""
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno is None)


def scheduler_gone(name: str) -> CapabilityError:
    """Return the error for a scheduler that answered before and no longer does."""
    return CapabilityError(
        f"scheduler {name} no longer answers",
        hint="start it again, and run the same command again: it continues after the finished samples",
    )


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Cluster]:
    """Connect to a scheduler, or start workers on this machine, for the duration of a block.

    Args:
        scheduler: ``tcp://HOST:PORT``, ``tls://HOST:PORT``, or ``local:N`` for N processes on this machine.
    """
    local = local_workers(scheduler)
    require_dask()
    import dask
    from distributed import Client

    with _silent(), dask.config.set(_SETTINGS), contextlib.ExitStack() as stack:
        address = scheduler if local is None else stack.enter_context(_local_cluster(local))
        _require_scheduler(address)
        client = stack.enter_context(Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
        cluster = Cluster(client, scheduler)
        _wait_for_worker(client, scheduler)
        cluster.require_versions()
        cluster.workers()
        yield cluster


def local_workers(scheduler: str) -> int | None:
    """Return N of ``local:N``, or None for the address of a scheduler.

    Raises:
        UsageError: The text is neither.
    """
    local, remote = _LOCAL.fullmatch(scheduler), _REMOTE.fullmatch(scheduler)
    if local and 1 <= int(local[1]) <= MOST_LOCAL:
        return int(local[1])
    if not remote or not 1 <= int(remote[3]) <= 65535:
        raise UsageError(
            f"--dask is '{scheduler}'; it must be tcp://HOST:PORT or tls://HOST:PORT of a scheduler, or local:N for N "
            f"processes on this machine, 1 to {MOST_LOCAL}",
            hint="`dask scheduler` prints the address of a scheduler when it starts, such as tcp://10.0.0.5:8786",
        )
    return None


def require_dask() -> None:
    """Check that Dask is installed.

    Raises:
        CapabilityError: Dask is not installed.
    """
    try:
        import distributed  # noqa: F401  it requires dask
    except ImportError:
        raise CapabilityError(
            "--dask needs Dask's package distributed, which is not installed", hint="`pip install distributed`"
        ) from None


def _require_scheduler(address: str) -> None:
    """Check that a server is a scheduler: a client without an answer takes 20 s to close, and prints a traceback."""
    # This needs another thread, because notebooks have a running event loop in this one.
    with ThreadPoolExecutor(1) as beside:
        try:
            kind = beside.submit(asyncio.run, _kind_of(address)).result()
        # For a server that is not a scheduler, Dask raises any error, even MemoryError.
        except Exception as error:  # noqa: BLE001
            raise _unreachable(address, error) from None
    if kind != "Scheduler":
        raise CapabilityError(
            f"{address} is a Dask {kind.lower()}, not a scheduler", hint="name the address that `dask scheduler` prints"
        )


async def _kind_of(address: str) -> str:
    from distributed import Security
    from distributed.core import rpc

    async with asyncio.timeout(CONNECT_SECONDS):
        async with rpc(
            address, timeout=CONNECT_SECONDS, connection_args=Security().get_connection_args("client")
        ) as server:
            return str((await server.identity())["type"])


def _unreachable(scheduler: str, error: Exception) -> CapabilityError:
    if scheduler.startswith("tls:") and "ssl_context" in str(error):
        return CapabilityError(
            f"scheduler {scheduler} needs TLS, and Dask has no certificates on this machine",
            hint="name them in Dask's configuration: distributed.comm.tls.ca-file and distributed.comm.tls.client",
        )
    return CapabilityError(
        f"no Dask scheduler answers at {scheduler} within {CONNECT_SECONDS} s",
        hint="`dask scheduler` starts a scheduler and prints its address; `--dask local:2` needs none",
    )


def _wait_for_worker(client: Client, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise CapabilityError(
            f"scheduler {scheduler} has no workers", hint=f"on each machine: `dask worker {scheduler} --nthreads 1`"
        ) from None


@contextlib.contextmanager
def _local_cluster(count: int) -> Iterator[str]:
    """Start a scheduler and workers on this machine, which end with the block."""
    from distributed import LocalCluster

    try:
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            # Dask would kill a worker that uses more than its share of the memory; one process may need all of it.
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise CapabilityError(f"{plural(count, 'worker')} cannot be started on this machine: {error}") from None
    with cluster:
        try:
            yield cluster.scheduler_address
        except BaseException:
            # A worker stops by itself only after its current samples. Ctrl-C leaves 3 seconds (supervisor.GRACE).
            for nanny in cluster.workers.values():
                nanny.auto_restart = False
                if nanny.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(nanny.pid, signal.SIGKILL)
            raise


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Stop Dask from logging to stderr: every error that matters is raised."""
    logger = logging.getLogger("distributed")
    before = logger.level
    # Dask sets up its loggers when it is imported.
    import distributed  # noqa: F401

    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
