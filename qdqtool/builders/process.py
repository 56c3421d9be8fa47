"""Run the TensorRT child process: start it in a session of its own, wait with a time limit, and report how it ended."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qdqtool.builders.builder import BuilderFailedError, EngineRequest, Stage
from qdqtool.graph.io.output import write_output
from qdqtool.scratch import ScratchFolder

_CHILD = "qdqtool.builders.child"
PACKAGE_ROOT = Path(__file__).resolve().parents[2]
_STAGES = {"start": "starting", "parse": "parsing the model", "build": "building", "write": "writing the engine"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The files that the process left.

    Attributes:
        facts: Content of ``result.json``: ``stage``, ``version``, ``problem`` and the details of the problem.
        log: Severity and text of the library's messages that were kept.
        layers: The layer dump, empty without one.
    """

    facts: dict[str, Any]
    log: list[tuple[str, str]] = field(default_factory=list)
    layers: str = ""


def run(module: str, request: EngineRequest, *, inspect: bool, title: str) -> Outcome:
    """Parse and build in a new process.

    Args:
        module: The TensorRT package to import there.
        request: What to build.
        inspect: Whether to ask the engine for its layers, which needs a GPU, instead of the builder's log.
        title: What the builder is called, for messages.

    Raises:
        BuilderFailedError: It crashed or passed the time limit.
    """
    with ScratchFolder("qdqtool-build-") as scratch:
        folder = scratch.path
        (folder / "request.json").write_text(json.dumps(_encode(module, request, inspect=inspect)), encoding="utf-8")
        try:
            with _child(folder) as child:
                code = child.wait(request.timeout)
            outcome = _collect(folder)
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
        "profiles": [asdict(entry) for entry in request.profiles],
        # What the user gives replaces what was measured.
        "values": {entry.name: asdict(entry) for entry in (*request.measured_values, *request.values)},
        "inspect": inspect,
        "verbose": request.verbose_log is not None,
    }


@contextlib.contextmanager
def _child(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (folder / "stderr").open("wb") as noise:
        # -P keeps the current folder, which may hold any file, off the module path. In a session of its own the child
        # does not get the Ctrl-C of the terminal: the parent handles it and then stops the child.
        child = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-P", "-m", _CHILD, str(folder)],
            stdin=subprocess.PIPE,
            stdout=noise,
            stderr=noise,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,
        )
        try:
            yield child
        finally:
            child.kill()
            child.wait()
            assert child.stdin is not None
            child.stdin.close()


def _collect(folder: Path) -> Outcome:
    facts: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    layers = folder / "layers.txt"
    return Outcome(facts, list(_read_log(folder)), layers.read_text(encoding="utf-8") if layers.exists() else "")


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


def _crash(title: str, code: int, outcome: Outcome, folder: Path) -> BuilderFailedError:
    doing = _doing(outcome.facts)
    # Popen gives the negative signal number for a process that a signal ended.
    if -code == signal.SIGKILL:
        how = f"was killed (SIGKILL) while {doing}, as a system does that has no memory left"
        hint = "give it more memory, or smaller shapes with --opt-shapes and --max-shapes"
    elif code < 0:
        how = f"crashed with {signal_name(-code)} while {doing}"
        hint = "a fault of the builder; `--verbose-log FILE` keeps its log"
    else:
        last = (folder / "stderr").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        how = f"stopped while {doing}: {last[-1] if last else f'exit status {code}'}"
        hint = "`--verbose-log FILE` keeps its log"
    return BuilderFailedError(title, how, _stage(outcome.facts), hint=hint)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
