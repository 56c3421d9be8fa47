"""The commands that can fail on a model, and how their failures are recognized."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import onnx

from qdqtool.engines.tensorrt.process import signal_name
from qdqtool.errors import UsageError
from qdqtool.jobs.reduction.child import Ended, run_child, run_own
from qdqtool.jobs.reduction.failure import Failure, Kind, Normalizer
from qdqtool.jobs.reduction.options import TIMEOUT
from qdqtool.jobs.reduction.subgraph import BaselineCuts, store
from qdqtool.models.graph.io.load import load_model

OWN = ("build", "check")
"""Commands whose JSON reports are read; other commands are judged by their exit code and last line."""

PLACEHOLDER = "{}"
_SLACK = 120.0
"""Seconds that ``build`` may take in addition to the time limit of its builder."""

_BASELINE = "--baseline"
_LONGEST = 500
"""Number of characters of a message that are kept."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Settings that all commands share, to recognize their failures.

    Attributes:
        timeout: Seconds after which a command is stopped.
        normalize: Removes the parts of a message that differ between models.
        match: The pattern in the output of a failing run; None if exit code and message decide.
    """

    timeout: float
    normalize: Normalizer
    match: re.Pattern[str] | None = None

    def matched(self, ended: Ended) -> Failure | None:
        """Return the failure of a run if its output matches the pattern."""
        assert self.match is not None
        output = f"{ended.out}\n{ended.err}"
        found = self.match.search(output)
        return Failure(Kind.MATCH, self.match.pattern, (), _brief(found[0]), output) if found else None

    def ended(self, ended: Ended) -> Failure | None:
        """Return the failure of a run by its exit code and the last line that it printed."""
        output = f"{ended.out}\n{ended.err}"
        if ended.code is None:
            return Failure(Kind.TIMEOUT, "", (), f"stopped after {self.timeout:g} s", output)
        if ended.code < 0:
            return Failure(Kind.SIGNAL, signal_name(-ended.code), (), "", output)
        if ended.code == 0:
            return None
        last = _last_line(ended.err) or _last_line(ended.out)
        return Failure(Kind.EXIT, str(ended.code), (self.normalize(last),), last, output)


@dataclass(frozen=True, slots=True)
class OtherCommand:
    """A command of the user, in which ``{}`` is the path of the model."""

    words: tuple[str, ...]
    judged: Judged
    cuts: ClassVar[None] = None
    """A model may be cut at every tensor."""

    def run(self, model: Path, folder: Path) -> Failure | None:
        """Run the command, with ``folder`` for its output; return its failure, or None if it succeeds."""
        words = [word.replace(PLACEHOLDER, str(model)) for word in self.words]
        ended = run_child(words, folder, self.judged.timeout)
        return self.judged.matched(ended) if self.judged.match is not None else self.judged.ended(ended)

    def write_companion(self, _model: Path) -> Path | None:
        """Write nothing: the command needs no additional file for a reduced model."""
        return None

    def line(self, model: str) -> str:
        """Return the command as a user types it for a model."""
        return shlex.join(word.replace(PLACEHOLDER, model) for word in self.words)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """``qdqtool build`` or ``qdqtool check``.

    Attributes:
        name: ``qdqtool build`` or ``qdqtool check``.
        options: The options, without the model, the baseline, the output and the format of the report.
        judged: How the command is judged.
        baseline: The float model with which ``check`` compares; None for no baseline.
    """

    name: str
    options: tuple[str, ...]
    judged: Judged
    baseline: BaselineCuts | None = None

    def run(self, model: Path, folder: Path) -> Failure | None:
        """Run the command on a model; return its failure, or None if it succeeds."""
        words = [self.name, str(model), *self._limits(), *self.options, "--output-format", "json"]
        if self.baseline is not None:
            cut = self._cut(model, folder / "baseline.onnx")
            if cut is None:
                return None
            words += ["--baseline", str(cut)]
        if self.name == "build":
            words += ["-o", str(folder / "engine")]
        ended = run_own(words, folder, self.judged.timeout + (_SLACK if self.name == "build" else 0))
        if self.judged.match is not None:
            return self.judged.matched(ended)
        if ended.code is None or ended.code <= 0:
            return self.judged.ended(ended)
        return self._reported(ended)

    @property
    def cuts(self) -> frozenset[str] | None:
        """The tensors at which a model may be cut: the tensors of the baseline; None for all tensors."""
        return self.baseline.tensors if self.baseline is not None else None

    def write_companion(self, model: Path) -> Path | None:
        """Write the part of the baseline that corresponds to a reduced model."""
        return self._cut(model, _beside(model)) if self.baseline is not None else None

    def line(self, model: str) -> str:
        """Return the command for a model."""
        compared = ("--baseline", str(_beside(Path(model)))) if self.baseline is not None else ()
        output = ("-o", "engine") if self.name == "build" else ()
        return shlex.join(("qdqtool", self.name, model, *output, *compared, *self._limits(), *self.options))

    def _cut(self, model: Path, target: Path) -> Path | None:
        """Write the part of the baseline that corresponds to a model; return its path, or None if there is none."""
        assert self.baseline is not None
        cut = self.baseline.like(onnx.load(str(model), load_external_data=False))
        return store(cut, target).model if cut is not None else None

    def _limits(self) -> tuple[str, ...]:
        # ``build`` itself stops the builder, and then reports in which stage it was.
        is_usual = self.judged.timeout == TIMEOUT
        return ("--timeout", f"{self.judged.timeout:g}") if self.name == "build" and not is_usual else ()

    def _reported(self, ended: Ended) -> Failure | None:
        report = _json(ended.out)
        output = f"{ended.out}\n{ended.err}"
        refusals, gates = report.get("refusals"), report.get("gates")
        message = report.get("message") or report.get("error", {}).get("message") or _last_line(ended.err)
        if " was stopped after " in message:
            return Failure(Kind.TIMEOUT, "", (self.judged.normalize(message),), message, output)
        if refusals:
            reasons = tuple(self._refusal(each, report["stage"]) for each in refusals)
            return Failure(Kind.REFUSED, report["stage"], reasons, _brief(message), output)
        if gates is not None:
            missed = tuple(_missed(gates))
            return Failure(Kind.GATE, "", tuple(name for name, _ in missed), "; ".join(text for _, text in missed[:3]))
        return Failure(Kind.EXIT, str(ended.code), (self.judged.normalize(message),), _brief(message), output)

    def _refusal(self, refusal: dict[str, Any], stage: str) -> str:
        """Return the decisive part of a refusal: the message of the builder, or the code of a rule without message."""
        # The parser names the operator. The builder does not: if an operator is named, the rules found it in the model.
        if not refusal["message"] and refusal["code"]:
            return str(refusal["code"])
        words = self.judged.normalize(refusal["message"] or refusal["reason"])
        op_type = refusal["op_type"] if stage == "parse" else None
        return f"{op_type or 'model'}: {words}"


Command = OtherCommand | OwnCommand


def parse_command(text: str, options: Sequence[str]) -> tuple[str, ...]:
    """Split the values of ``--fails`` and of the arguments after ``--`` into words.

    Raises:
        UsageError: A quotation mark is missing, nothing is given, or no word is the path of the model.
    """
    try:
        words = (*shlex.split(text), *options)
    except ValueError as error:
        raise UsageError(f"--fails {text!r} cannot be split into words: {error}") from None
    if not words:
        raise UsageError("--fails is empty", hint="name build, check, or a command with {} for the path of the model")
    if _is_own(words):
        return words
    words = tuple(PLACEHOLDER if word == "MODEL" else word for word in words)
    if not any(PLACEHOLDER in word for word in words):
        raise UsageError(
            f"the command {shlex.join(words)!r} has no placeholder for the model",
            hint=f"write {PLACEHOLDER} for the path of the model: `--fails {shlex.quote(shlex.join(words) + ' {}')}`",
        )
    return words


def make_command(words: tuple[str, ...], judged: Judged) -> Command:
    """Return the command for words from :func:`parse_command`."""
    if not _is_own(words):
        return OtherCommand(words, judged)
    options, baseline = _without_baseline(words[1:]) if words[0] == "check" else (words[1:], None)
    cuts = BaselineCuts(load_model(baseline)) if baseline is not None else None
    return OwnCommand(words[0], options, judged, cuts)


def _without_baseline(options: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Split the options of ``check`` into the baseline and the others."""
    for index, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name == _BASELINE and equals:
            return (*options[:index], *options[index + 1 :]), value
        if name == _BASELINE and index + 1 < len(options):
            return (*options[:index], *options[index + 2 :]), options[index + 1]
    return options, None


def _beside(model: Path) -> Path:
    """Return the path of the baseline that is written for a reduced model."""
    return model.with_name(f"{model.stem}.baseline.onnx")


def _is_own(words: Sequence[str]) -> bool:
    return words[0] in OWN and not any(PLACEHOLDER in word for word in words)


def refuse_wrong_use(failure: Failure, command: Command) -> None:
    """Refuse to reduce if ``build`` or ``check`` failed because of its options and not because of the model.

    Raises:
        UsageError: The command ended with exit code 2.
    """
    if isinstance(command, OwnCommand) and (failure.kind, failure.detail) == (Kind.EXIT, "2"):
        raise UsageError(
            f"`qdqtool {command.name}` does not run: {failure.message.removeprefix('error: ')}",
            hint=f"give options of {command.name} after --; to fix dynamic inputs, use --input-shapes of reduce",
        )


def _missed(gates: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each missed gate."""
    for gate in gates:
        if not gate["passed"]:
            name = gate.get("name") or gate["gate"]
            yield name, f"{name}: {_brief(next(iter(gate.get('failures', ())), gate.get('found', '')))}"


def _json(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("hint: ")]
    return _brief(lines[-1].strip()) if lines else ""


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
