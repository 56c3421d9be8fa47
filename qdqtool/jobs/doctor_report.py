"""The report of ``doctor``, as data."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.engines.tensorrt.gpus import Gpu

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One package, and whether it can be imported.

    Attributes:
        name: Distribution name; if there are several, the name of the first installed one.
        state: ``ok`` if it imports, ``missing`` if it is not installed, ``broken`` if its import fails.
        version: Installed version.
        note: The fault, or a remark.
        needed_for: Commands that need the package.
    """

    name: str
    state: State
    version: str | None
    note: str
    needed_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandState:
    """Whether one command can run on this machine.

    Attributes:
        command: The command, with an option or backend if that makes a difference.
        works: Whether all requirements of the command are met.
        reason: The missing requirement, if the command does not work.
        remark: Further facts about the command.
    """

    command: str
    works: bool
    reason: str
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTarget:
    """One target for which models can be validated.

    Attributes:
        name: Id of the target, or first and last id of its releases.
        title: Name of the target for readers.
        verified: The evidence for the facts about the target.
    """

    name: str
    title: str
    verified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The result of ``doctor``: what works on this machine.

    Attributes:
        qdqtool: Version of qdqtool.
        python: Python version.
        platform: Operating system and processor.
        gpus: CUDA devices that the driver shows.
        gpu_note: Why no GPUs were found.
        components: The packages.
        commands: The commands.
        targets: The targets for which models can be validated, on every machine.
        problems: Problems to fix, with instructions.
    """

    qdqtool: str
    python: str
    platform: str
    gpus: tuple[Gpu, ...]
    gpu_note: str
    components: tuple[Component, ...]
    commands: tuple[CommandState, ...]
    targets: tuple[KnownTarget, ...]
    problems: tuple[str, ...]
