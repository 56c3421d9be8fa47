"""The inspect job for engines: the kernels of an engine, from its manifest."""

from __future__ import annotations

from pathlib import Path

from qdqtool.engines.build.engine_map import EngineMap, read_map


def inspect_engine(engine: str | Path) -> EngineMap:
    """Return the kernels of an engine and its conversions between floats and codes.

    Args:
        engine: An engine that ``build`` wrote, with its manifest next to it; or only the manifest.

    Raises:
        ModelError: The manifest is absent, cannot be read, has no map, or belongs to another engine.
    """
    return read_map(Path(engine))
