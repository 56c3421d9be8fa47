"""Run the TensorRT child process: start it in a new session, wait with a time limit, and report how it ended."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from qdqtool.engines.report import Stage
from qdqtool.engines.tensorrt.builder import BuilderFailedError, EngineRequest
from qdqtool.engines.tensorrt.deployment import POOLS, is_dynamic
from qdqtool.errors import CapabilityError, QdqError, UsageError
from qdqtool.models.graph.io.output import write_output
from qdqtool.models.scratch import ScratchFolder

_TIMING_CACHE = "timing.cache"
PACKAGE_ROOT = Path(__file__).resolve().parents[3]
Child = subprocess.Popen[bytes]
OUT_OF_MEMORY = re.compile(r"std::bad_alloc|MemoryError|Resource temporarily unavailable|Cannot allocate memory")
"""Matches messages of a process to which the system gives no memory or no thread."""

STUCK_SECONDS = 60.0
"""A process without processor time for so long is stuck: its threads wait for each other after a failed allocation."""

_STAGES = {"start": "starting", "parse": "parsing the model", "build": "building", "write": "writing the engine"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The content of the files that the process wrote.

    Attributes:
        facts: Content of ``result.json``: ``stage``, ``version``, ``problem`` and the details of the problem.
        log: Severity and text of the library's messages in the log file.
        layers: The layer dump; empty without a dump.
        timing_cache: Content of the timing cache after the build; None if none was requested.
    """

    facts: dict[str, Any]
    log: list[tuple[str, str]] = field(default_factory=list)
    layers: str = ""
    timing_cache: bytes | None = None


def run(module: str, request: EngineRequest, *, inspect: bool, title: str) -> Outcome:
    """Parse and build in a new process.

    Args:
        module: The TensorRT package to import in the process.
        request: The build.
        inspect: Whether to read the layers from the engine, which needs a GPU, instead of from the builder's log.
        title: The name of the builder in messages.

    Raises:
        BuilderFailedError: The process crashed or exceeded the time limit.
        CapabilityError: The process ran out of memory.
        UsageError: The timing cache cannot be read.
    """
    with ScratchFolder("qdqtool-build-") as scratch:
        folder = scratch.path
        encoded = {**_encode(module, request, inspect=inspect), "options": _options(request, folder)}
        (folder / "request.json").write_text(json.dumps(encoded), encoding="utf-8")
        try:
            with _child(folder) as child:
                code = _wait(child, request.timeout)
            outcome = _collect(folder)
        except TimeoutError:
            facts = _collect(folder).facts
            raise BuilderFailedError(
                title,
                f"was stopped after {STUCK_SECONDS:g} s without processor time while {_doing(facts)}",
                _stage(facts),
                hint="its threads wait for each other, as after a failed allocation: give it more memory",
            ) from None
        except subprocess.TimeoutExpired:
            facts = _collect(folder).facts
            raise BuilderFailedError(
                title,
                f"was stopped after {request.timeout:g} s while {_doing(facts)}",
                _stage(facts),
                is_slow=True,
                hint="give it more time: `--timeout SECONDS`",
            ) from None
        finally:
            _keep_log(folder, request.verbose_log)
        # After a refusal the child parses again to find further refused nodes; a crash there does not change the
        # refusal.
        if code != 0 and outcome.facts.get("problem") != "refused":
            raise _crash(title, code, outcome, folder)
        return outcome


def _encode(module: str, request: EngineRequest, *, inspect: bool) -> dict[str, Any]:
    assert request.model.path is not None
    return {
        "module": module,
        "model": str(request.model.path.resolve()),
        "engine": str(request.engine.resolve()),
        # Members of ComputeCapability are spelled SM86.
        "targets": [f"SM{target.replace('.', '')}" for target in request.targets],
        "profiles": [_profile(request, index) for index in range(request.profile_count)],
        "inspect": inspect,
        "verbose": request.verbose_log is not None,
    }


def _profile(request: EngineRequest, index: int) -> dict[str, Any]:
    values = [entry for entry in request.values if entry.profile == index]
    return {
        "shapes": [asdict(entry) for entry in request.profiles if entry.profile == index],
        # Values from the user replace measured values.
        "values": {entry.name: asdict(entry) for entry in (*request.measured_values, *values)},
    }


def _options(request: EngineRequest, folder: Path) -> dict[str, Any]:
    wanted = request.deployment
    cache = folder / _TIMING_CACHE if wanted.timing_cache_file is not None else None
    if cache is not None:
        # The child works on a copy, so that a failed build changes no file of the user.
        cache.write_bytes(_read_cache(wanted.timing_cache_file))
    return {
        "flags": wanted.flags(),
        "level": wanted.builder_optimization_level,
        "pools": {name: (POOLS[name], size) for name, size in wanted.mem_pool_size.items()},
        "timing_cache": str(cache) if cache is not None else None,
        "plugins": {str(each.resolve()): is_dynamic(each) for each in wanted.plugins},
        "serialize": wanted.serialize_plugins,
    }


def _read_cache(file: Path | None) -> bytes:
    assert file is not None
    try:
        return file.read_bytes() if file.exists() else b""
    except OSError as error:
        raise UsageError(f"timing cache {file} cannot be read: {error.strerror}") from None


def start_child(module: str, argument: str, *, output: int | IO[bytes], errors: int | IO[bytes]) -> Child:
    """Start a module of this folder as a process with a pipe as its standard input."""
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # -P keeps the current folder, which may contain any file, off the module path. In a new session the child does not
    # get the Ctrl-C of the terminal: the parent handles it and then stops the child.
    return subprocess.Popen(  # noqa: S603  our own interpreter and module
        [sys.executable, "-P", "-m", f"qdqtool.engines.tensorrt.{module}", argument],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )


@contextlib.contextmanager
def _child(folder: Path) -> Iterator[Child]:
    with (folder / "stderr").open("wb") as noise:
        child = start_child("child", str(folder), output=noise, errors=noise)
        try:
            yield child
        finally:
            child.kill()
            child.wait()
            assert child.stdin is not None
            child.stdin.close()


def _wait(child: Child, seconds: float) -> int:
    """Wait for the child, and return its exit code.

    Raises:
        TimeoutExpired: The time is over.
        TimeoutError: The child is stuck.
    """
    end = time.monotonic() + seconds
    used, since = None, time.monotonic()
    while True:
        left = end - time.monotonic()
        try:
            return child.wait(max(min(left, 1.0), 0.0))
        except subprocess.TimeoutExpired:
            if left <= 0:
                raise
        before, used = used, _processor_time(child.pid)
        if used is None or used != before:
            since = time.monotonic()
        elif time.monotonic() - since > STUCK_SECONDS:
            raise TimeoutError


def _processor_time(process: int) -> tuple[str, ...] | None:
    """Return the processor time of a process in ticks, or None if the system does not report it."""
    with contextlib.suppress(OSError):
        # The name of the program, in brackets, may contain spaces; user and system time are fields 14 and 15.
        return tuple(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13])
    return None


def lack_of_memory(title: str, why: str) -> CapabilityError:
    """Return the error for a builder that got no memory from the system."""
    return CapabilityError(
        f"{title} got no memory from this machine: {why}; no engine was written",
        hint="give it more memory, or smaller shapes with --opt-shapes and --max-shapes",
    )


def _collect(folder: Path) -> Outcome:
    facts: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    layers = folder / "layers.txt"
    cache = folder / _TIMING_CACHE
    return Outcome(
        facts,
        list(_read_log(folder)),
        layers.read_text(encoding="utf-8") if layers.exists() else "",
        cache.read_bytes() if cache.exists() else None,
    )


def _read_log(folder: Path) -> Iterator[tuple[str, str]]:
    with contextlib.suppress(OSError), (folder / "log.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            # A crash may cut the last line.
            with contextlib.suppress(ValueError):
                severity, message = json.loads(line)
                yield severity, message


def _keep_log(folder: Path, target: Path | None) -> None:
    if target is None:
        return
    text = "".join(f"[{severity}] {message}\n" for severity, message in _read_log(folder))
    with contextlib.suppress(OSError):
        text += (folder / "stderr").read_text(encoding="utf-8", errors="replace")
    write_output(target, text.encode("utf-8", "replace"))


def _doing(facts: dict[str, Any]) -> str:
    return _STAGES.get(str(facts.get("stage")), "inspecting the engine")


def _stage(facts: dict[str, Any]) -> Stage:
    return "build" if facts.get("stage") in {"build", "write", "inspect", "done"} else "parse"


def _crash(title: str, code: int, outcome: Outcome, folder: Path) -> QdqError:
    doing = _doing(outcome.facts)
    noise = (folder / "stderr").read_text(encoding="utf-8", errors="replace")
    if (shortage := OUT_OF_MEMORY.search(noise)) is not None:
        return lack_of_memory(title, f"{shortage[0]} while {doing}")
    # Popen returns the negative signal number for a process that a signal ended.
    if -code == signal.SIGKILL:
        how = f"was killed (SIGKILL) while {doing}, as happens when the system has no memory left"
        hint = "give it more memory, or smaller shapes with --opt-shapes and --max-shapes"
    elif code < 0:
        how = f"crashed with {signal_name(-code)} while {doing}"
        hint = "a fault of the builder; `--verbose-log FILE` keeps its log"
    else:
        last = noise.strip().splitlines()
        how = f"stopped while {doing}: {last[-1] if last else f'exit status {code}'}"
        hint = "`--verbose-log FILE` keeps its log"
    return BuilderFailedError(title, how, _stage(outcome.facts), hint=hint)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
