"""Words that messages and reports share."""


def plural(count: int, noun: str) -> str:
    """Return ``count`` with its noun: ``1 weight``, ``2 weights``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
