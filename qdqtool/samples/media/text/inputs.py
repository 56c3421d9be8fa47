"""The inputs of a model that a tokenizer fills, by their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qdqtool.errors import UsageError
from qdqtool.samples.media.text.options import TextOptions
from qdqtool.samples.signature import Dim, InputSpec, needed

Part = Literal["ids", "mask", "types", "positions"]

# The second names are those of Google's BERT, which MLPerf's models still have.
PARTS: dict[str, Part] = {
    "input_ids": "ids",
    "attention_mask": "mask",
    "input_mask": "mask",
    "token_type_ids": "types",
    "segment_ids": "types",
    "position_ids": "positions",
}
"""What an input of that name takes."""

_SCRIPT = "a Python script gives any input: its load_data() yields a dict of arrays for each run"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInputs:
    """The inputs of a model that takes text.

    Attributes:
        parts: Each input with what it takes.
        batch: Lines in one run; 1 where the model leaves it open. None where inputs have no batch dimension.
        length: Number of tokens of a line; None where the model leaves it open.
    """

    parts: tuple[tuple[InputSpec, Part], ...]
    batch: int | None
    length: int | None


def text_inputs(specs: Sequence[InputSpec], source: str) -> TextInputs:
    """Return the inputs that a tokenizer fills: ``[B, N]`` or ``[N]``. A single input takes the token ids.

    Args:
        specs: The inputs.
        source: The file, for messages.

    Raises:
        UsageError: An input is none of these, has another shape or type, or differs from the others in its shape.
    """
    found = needed(specs)
    parts = tuple((spec, PARTS.get(spec.name)) for spec in found)
    if len(parts) == 1:
        parts = ((found[0], "ids"),)
    known = tuple((spec, part) for spec, part in parts if part is not None)
    if "ids" not in {part for _, part in known} or len(known) < len(found):
        _refuse_names(parts, source)
    for spec, part in known:
        _check(spec, part, source)
    shapes = {spec.shape for spec, _ in known if spec.shape is not None}
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise UsageError(f"{source} holds text, and the inputs have different ranks: {_listed(found)}", hint=_SCRIPT)
    return TextInputs(
        parts=known,
        batch=_common([shape[0] for shape in shapes], found, source) or 1 if ranks == {2} else None,
        length=_common([shape[-1] for shape in shapes], found, source),
    )


def length_of(options: TextOptions, taken: TextInputs) -> int:
    """Return the number of tokens of a sample.

    Raises:
        UsageError: The model leaves it open and it is not given, or it contradicts the model.
    """
    specs = [spec for spec, _ in taken.parts]
    if taken.length is None and options.length is None:
        raise UsageError(
            f"the number of tokens of a sample is not known: the model takes {_listed(specs)}",
            hint="give it: `--text-length 128`",
        )
    if taken.length is not None and options.length not in {None, taken.length}:
        raise UsageError(
            f"--text-length {options.length} contradicts the model, which takes {_listed(specs)}",
            hint="leave --text-length out: the length is taken from the model",
        )
    found = taken.length if taken.length is not None else options.length
    assert found is not None
    return found


def _refuse_names(parts: Sequence[tuple[InputSpec, Part | None]], source: str) -> None:
    unknown = [spec.name for spec, part in parts if part is None]
    given = ", ".join(PARTS)
    if not parts:
        raise UsageError(f"{source} holds text, and the model has no inputs")
    if unknown:
        others = f" and {len(unknown) - 1} others" if len(unknown) > 1 else ""
        raise UsageError(
            f"{source} holds text, and no tokenizer gives the input '{unknown[0]}'{others}; it gives {given}",
            hint=_SCRIPT,
        )
    raise UsageError(f"{source} holds text, and the model has no input 'input_ids' for the token ids", hint=_SCRIPT)


def _check(spec: InputSpec, part: Part, source: str) -> None:
    is_integer = spec.dtype.kind in "iu"
    if spec.shape is None or len(spec.shape) not in {1, 2} or not (is_integer or part == "mask"):
        raise UsageError(
            f"{source} holds text, and the model takes {spec}; token ids are integers of shape [B, N] or [N]",
            hint=_SCRIPT,
        )


def _common(dims: Sequence[Dim], specs: Sequence[InputSpec], source: str) -> int | None:
    known = {dim for dim in dims if isinstance(dim, int) and dim > 0}
    if len(known) > 1:
        raise UsageError(f"{source} holds text, and the inputs have different shapes: {_listed(specs)}", hint=_SCRIPT)
    return next(iter(known), None)


def _listed(specs: Sequence[InputSpec]) -> str:
    return "; ".join(map(str, specs))
