"""The cast job: convert the float32 nodes of a model to float16 or bfloat16."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from qdqtool.accuracy.checking.check_values import feeds_of, recorded_preprocessing, with_values
from qdqtool.accuracy.checking.gptq_check import note_with_rounded_scales
from qdqtool.accuracy.report import Accuracy
from qdqtool.accuracy.search.half_search import DEFAULT_SQNR_DB, HalfRequest, HalfSearch, convert_within
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.growth import require_bounded
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.soundness import require_sound
from qdqtool.models.graph.io.external import model_bytes
from qdqtool.models.graph.io.load import load_source
from qdqtool.models.graph.io.metadata import HIGH_PRECISION_KEY, with_metadata
from qdqtool.models.graph.io.offload import offloaded
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import Sizes, WrittenModelReport
from qdqtool.models.options import ExternalData, HalfType, IoTypes
from qdqtool.models.running.custom_types import with_known_types
from qdqtool.models.running.loadable import require_loadable
from qdqtool.models.transforms.inline_functions import inline_called
from qdqtool.models.transforms.io_types import InterfaceChange, with_io_types
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.models.transforms.taps import tensor_key
from qdqtool.options import Speech, Values, build
from qdqtool.quantization.planning.high_precision import (
    FIRST_OPSET,
    RESERVE_OF_RANDOM,
    known_magnitudes,
    measure_magnitudes,
)
from qdqtool.quantization.planning.placement.proposal import Selection
from qdqtool.quantization.ranges.file import read_stored
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.report import HighPrecisionReport
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.options import require_data
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import DataRequest, data_request
from qdqtool.samples.split import MeasuringData, measuring_part, split_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class CastOptions:
    """How a model is converted to half precision and written.

    Attributes:
        to: The type that replaces float32.
        min_sqnr_db: The SQNR in dB that every output keeps; None for :data:`DEFAULT_SQNR_DB` on real data, and for
            finite outputs on random inputs.
        selection: Patterns of the nodes that stay float32.
        io_types: The types of inputs and outputs.
        calibration_cache: A ranges file with further largest values; None for none.
        external_data: Whether weights are stored in a second file.
    """

    to: HalfType = HalfType.FP16
    min_sqnr_db: float | None = None
    selection: Selection = field(default_factory=Selection)
    io_types: IoTypes = IoTypes.KEEP
    calibration_cache: Path | None = None
    external_data: ExternalData = ExternalData.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class CastReport(WrittenModelReport):
    """The result of ``cast``.

    Attributes:
        model: The input model.
        output: The ``.onnx`` file that was written.
        external_data: The data file of the output, if any.
        high_precision: The conversion, and the nodes that stay float32 with the reasons.
        min_sqnr_db: The SQNR in dB that every output keeps; None if outputs only have to be finite.
        accuracy: The outputs of the result against those of the model without its Q/DQ.
        before_db: The SQNR of the worst output of the model against the model without its Q/DQ; None without Q/DQ.
        interface: The inputs and outputs whose types were to change, with what the application feeds and receives.
        data: The samples.
        opset_before: The opset of the input model.
        opset_after: The opset of the output.
        sizes: File sizes.
    """

    model: str
    output: str
    external_data: str | None
    high_precision: HighPrecisionReport
    min_sqnr_db: float | None
    accuracy: Accuracy
    before_db: float | None
    interface: tuple[InterfaceChange, ...]
    data: DataDescription
    opset_before: int
    opset_after: int
    sizes: Sizes


def cast_request(values: Values, said: Speech) -> tuple[DataRequest, CastOptions]:
    """Return the data and the options of a conversion to half precision.

    Raises:
        UsageError: An option for data is given without data.
    """
    require_data(values, "data" in values, said)
    selection, limit = build(Selection, values), values.pop("min_sqnr", None)
    return data_request(values), build(CastOptions, values, selection=selection, min_sqnr_db=limit)


def cast_model(
    model: str | Path | Model, output: str | Path, options: CastOptions | None = None, data: DataRequest | None = None
) -> CastReport:
    """Convert the float32 nodes of a model to half precision and write the result.

    Q/DQ pairs keep their codes. A node stays float32 if ONNX does not define its operator for the type, if a value on
    the data or inside its formula leaves the type, if the user names it, or if an output would fall below the limit.

    Args:
        model: The ``.onnx`` file, or a loaded model. It is not changed.
        output: The ``.onnx`` file to write.
        options: The type, the limit, and the nodes that stay float32.
        data: The samples on which values are measured; default is random inputs with a fixed seed.
    """
    options, request = options or CastOptions(), data or DataRequest()
    given = offloaded(with_known_types(load_source(model, output)))
    require_sound(ModelIndex.of(given).view)
    source = inline_called(given).model
    if options.to is HalfType.BF16:
        source = upgrade_opset(source, FIRST_OPSET[options.to]).model
    options.selection.matches(ModelIndex.of(source).view)
    found, feeds = _search(source, options, request)
    done = found.request.convert(source, found.kept)
    notes = {HIGH_PRECISION_KEY: options.to.value, **note_with_rounded_scales(given)}
    made = with_io_types(with_metadata(done.model, notes), options.io_types)
    require_loadable(made.model, given)
    saved = save_model(made.model, output, external_data=options.external_data)
    return CastReport(
        model=str(given.path or ""),
        output=str(saved.model),
        external_data=str(saved.data) if saved.data else None,
        high_precision=HighPrecisionReport(
            dtype=options.to.value,
            nodes=done.report.nodes,
            kept=done.report.kept,
            casts=done.report.casts,
            measured=len(found.request.measured),
            random=feeds.description.seed is not None,
        ),
        min_sqnr_db=found.request.limit_db,
        accuracy=found.accuracy,
        before_db=found.before_db,
        interface=made.report,
        data=feeds.description,
        opset_before=given.default_opset(),
        opset_after=made.model.default_opset(),
        sizes=Sizes(before=model_bytes(given), after=saved.bytes),
    )


def _search(source: Model, options: CastOptions, request: DataRequest) -> tuple[HalfSearch, Feeds]:
    request = replace(request, options=replace(request.options, recorded=recorded_preprocessing((source, None))))
    model, _, request = with_values(source, None, request)
    feeds = feeds_of(ModelIndex.of(model), None, request, {})
    require_bounded(model, feeds.description.shapes)
    split = split_samples(len(feeds))
    choosing, is_real = split.choosing_of(feeds), feeds.description.seed is None
    ranges = _ranges(options.calibration_cache, model)
    half = HalfRequest(
        half=options.to,
        limit_db=DEFAULT_SQNR_DB[options.to] if is_real and options.min_sqnr_db is None else options.min_sqnr_db,
        is_default=is_real and options.min_sqnr_db is None,
        measured=known_magnitudes(measure_magnitudes(model, choosing), ranges),
        reserve=1.0 if is_real or ranges is not None else RESERVE_OF_RANDOM,
        refuse=lambda node: "" if (why := options.selection.refusal(node)) is None else why.text,
    )
    with FloatRuns(optimized=False) as runs:
        return convert_within(model, half, MeasuringData(feeds=choosing), measuring_part(feeds, split), runs), feeds


def _ranges(path: Path | None, model: Model) -> Ranges | None:
    """Read a ranges file, at least one of whose tensors the model has."""
    if path is None:
        return None
    ranges = read_stored(path)
    if not any(tensor_key(value) in ranges.tensors for value in ModelIndex.of(model).view.values()):
        raise UsageError(f"ranges {path} are of another model: it has none of their {len(ranges.tensors)} tensors")
    return ranges
