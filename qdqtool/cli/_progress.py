"""A progress bar over samples, for commands that run a model."""

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def sample_progress() -> Iterator[Callable[[int, int], None]]:
    """A function that takes the samples done and their total, and shows them on stderr if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("samples", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
