"""The inspect job for engines: kernels from a manifest, or layers and times from the files of trtexec."""

from __future__ import annotations

from pathlib import Path

from qdqtool.engines.build.engine_map import EngineMap, has_manifest, is_engine, read_map
from qdqtool.engines.build.layer_files import layers_of, read_layer_file, read_profile
from qdqtool.engines.build.layer_map import map_layers
from qdqtool.engines.report import LayerMap
from qdqtool.models.graph.io.load import load_model


def inspect_engine(engine: str | Path) -> EngineMap:
    """Return the kernels of an engine and its conversions between floats and codes.

    Args:
        engine: An engine that ``build`` wrote, with its manifest next to it; or only the manifest.

    Raises:
        ModelError: The manifest is absent, cannot be read, has no map, or belongs to another engine.
    """
    return read_map(Path(engine))


def inspect_layers(
    layers: str | Path, *, profile: str | Path | None = None, model: str | Path | None = None
) -> LayerMap:
    """Return the layers of an engine that any tool built: types, conversions, and times.

    Args:
        layers: The JSON file of trtexec's ``--exportLayerInfo``; or an engine of ``build``, or its manifest.
        profile: The JSON file of trtexec's ``--exportProfile``; None for no times.
        model: The ONNX model from which the engine was built, to compare planned types with actual types; None to leave
            this out.

    Raises:
        ModelError: A file cannot be read, or has other content.
        UsageError: The profile or the model belongs to another engine.
    """
    path = Path(layers)
    is_built = has_manifest(path) or is_engine(path)
    found = layers_of(read_map(path)) if is_built else read_layer_file(path)
    times = read_profile(Path(profile)) if profile is not None else None
    return map_layers(found, times, load_model(model, needs_data=False) if model is not None else None)
