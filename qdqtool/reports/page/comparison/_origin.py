"""What two models were made of, and with which versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from qdqtool.errors import plural
from qdqtool.reports.page.comparison._cells import Row, in_words
from qdqtool.reports.page.pair import Pair
from qdqtool.reports.saved.identity import DIGITS, Claim
from qdqtool.reports.saved.stored_parts import StoredData
from qdqtool.reports.saved.stored_reports import StoredBuild, StoredCheck, StoredInspect, StoredQuantize
from qdqtool.reports.saved.story import Story


def setting_rows(pair: Pair) -> Iterator[Row]:
    """Yield how each model was quantized."""
    yield from (Row(name, in_words(pair.each(read))) for name, read in _SETTINGS)


def origin_rows(pair: Pair) -> Iterator[Row]:
    """Yield files, data and versions."""
    yield from (Row(name, in_words(pair.each(read))) for name, read in _ORIGIN)


def builder(build: StoredBuild) -> str:
    """Return what built an engine, and for what."""
    return f"{build.backend} {build.version} for {', '.join(build.targets) or 'the GPU of the machine'}"


def _digest(claim: Claim | None) -> str | None:
    return f"{claim.file.sha256[:DIGITS]}…" if claim is not None and claim.file is not None else None


def _of_quantize(read: Callable[[StoredQuantize], str | None]) -> Callable[[Story], str | None]:
    def found(story: Story) -> str | None:
        quantize = story.first(StoredQuantize)
        return read(quantize) if quantize is not None else None

    return found


def _opset(story: Story) -> str | None:
    quantize, inspected = story.first(StoredQuantize), story.first(StoredInspect)
    if quantize is not None:
        return str(quantize.opset_after)
    found = inspected.opset_imports.get("ai.onnx") if inspected is not None and inspected.groups else None
    return str(found) if found is not None else None


def _calibration(quantize: StoredQuantize) -> str:
    found = quantize.calibration
    if found is None:
        return "none: the scales follow from the weights alone"
    return f"{'random inputs' if found.random else found.source}, {plural(found.samples, 'sample')}"


def _method(quantize: StoredQuantize) -> str | None:
    return quantize.calibration.method_used if quantize.calibration is not None else None


def _checked(story: Story) -> str | None:
    return _joined(_data(check.data) for _, check in story.each(StoredCheck))


def _data(data: StoredData) -> str:
    origin = f"random inputs, seed {data.seed}" if data.seed is not None else data.source
    return f"{origin}, {plural(data.samples, 'sample')}"


def _versions(story: Story) -> str | None:
    found = (getattr(report.content, "qdqtool_version", None) for report in story.reports)
    return _joined(version for version in found if version is not None)


def _references(story: Story) -> str | None:
    references = (check.reference for _, check in story.each(StoredCheck))
    return _joined(f"{each.runtime} {each.version}, profile {each.profile}, on {each.cpu}" for each in references)


def _builders(story: Story) -> str | None:
    return _joined(builder(build) for _, build in story.each(StoredBuild))


def _joined(words: Iterable[str]) -> str | None:
    return "; ".join(sorted(set(words))) or None


_Readers = tuple[tuple[str, Callable[[Story], str | None]], ...]
_SETTINGS: _Readers = (
    ("Mode", _of_quantize(lambda quantize: quantize.mode)),
    ("Target", _of_quantize(lambda quantize: quantize.target)),
    ("Opset", _opset),
    ("Calibration method", _of_quantize(_method)),
)
_ORIGIN: _Readers = (
    ("Quantized model", lambda story: story.quantized_model),
    ("SHA-256 of the quantized model", lambda story: _digest(story.quantized)),
    ("Float model", lambda story: story.float_model),
    ("SHA-256 of the float model", lambda story: _digest(story.original)),
    ("Calibration data", _of_quantize(_calibration)),
    ("Data of the checks", _checked),
    ("qdqtool", _versions),
    ("Reference", _references),
    ("Builder", _builders),
)
