"""The report of ``doctor`` as data."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.engines.tensorrt.gpus import Gpu

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One package and whether it really loads.

    Attributes:
        name: Distribution names, the first installed one's if there are several.
        state: ``ok`` if it imports, ``missing`` if it is not installed, ``broken`` if its import fails.
        version: Installed version.
        note: The fault, or a remark.
        needed_for: Commands that need it.
    """

    name: str
    state: State
    version: str | None
    note: str
    needed_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandState:
    """Whether one command can do its work here.

    Attributes:
        command: The command, with the option or backend where that decides.
        works: Whether everything that it needs is here.
        reason: The missing part where it does not work.
        remark: Further facts about it.
    """

    command: str
    works: bool
    reason: str
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTarget:
    """One target that models are judged for.

    Attributes:
        name: Its id, or those of its releases as a span.
        title: Its name in words.
        verified: What the facts about it rest on.
    """

    name: str
    title: str
    verified: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """What works on this machine.

    Attributes:
        qdqtool: Our version.
        python: Python version.
        platform: Operating system and processor.
        gpus: CUDA devices that the driver shows.
        gpu_note: Why there are none.
        components: The packages.
        commands: The commands.
        targets: What models can be judged for, on every machine.
        problems: What should be mended, with the way to do it.
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
