"""Read and write plan files: the tensors with a Q/DQ pair and their constants (``docs/reference/files.md``)."""

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.quantization.insertion.pair_edits import qdq_attributes
from qdqtool.registry import suggestion
from qdqtool.samples.columns import DAMAGED_ARCHIVE

SCHEMA_VERSION = 1
MAX_PLAN_BYTES = 1 << 28


class ArrayRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array stored in another file: ``key`` of an ``.npz`` or ``.safetensors`` file, relative to the plan.

    Attributes:
        file: Path relative to the folder of the plan.
        key: Name of the array in the file.
    """

    file: str
    key: str


class PlanEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One ``[[tensors]]`` entry.

    Attributes:
        tensor: Tensor name, or a glob over tensor names.
        format: Public id of a number format.
        scale: A number, nested lists of numbers, or a reference to a stored array.
        scale_format: Public id of the format in which the scales are stored. If it is absent, scales have the type
            of the data.
        scale_scale: Real value of one step of the scales, if they are quantized; one number.
        zero_point: A value like ``scale``, in codes; absent for zero.
        axis: For per-axis and blocked scales.
        block_size: For blocked scales.
        consumers: Node names or output names (or globs) of the only nodes that read the quantized tensor.
        scope: Glob over scope paths; absent for every scope, empty for the main graph.
        reason: Free text that reports repeat.
    """

    tensor: str
    format: str
    scale: float | list[Any] | ArrayRef
    scale_format: str | None = None
    scale_scale: float | ArrayRef | None = None
    zero_point: int | list[Any] | ArrayRef | None = None
    axis: int | None = None
    block_size: int | None = None
    consumers: list[str] | None = None
    scope: str | None = None
    reason: str = "named by the plan"


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A decoded plan file.

    Attributes:
        schema_version: Version of the schema, 1.
        tensors: The entries, in order.
        model_sha256: Digest of the content of the model that the plan was made for; absent in plans written by hand.
    """

    schema_version: int
    tensors: list[PlanEntry]
    model_sha256: str | None = None

    def files(self, path: Path) -> list[Path]:
        """Return all files that a plan is read from: the plan file ``path``, and its stored arrays."""
        numbers = (each for entry in self.tensors for each in (entry.scale, entry.scale_scale, entry.zero_point))
        return [path, *(path.parent / each.file for each in numbers if isinstance(each, ArrayRef))]


def read_plan_file(path: str | Path) -> PlanFile:
    """Decode a plan file strictly.

    Args:
        path: A ``.toml`` or ``.json`` file.

    Raises:
        UsageError: The file is missing, is not TOML or JSON, or has an unknown key or a value of the wrong type.
    """
    path = Path(path)
    document = _parse(path)
    _refuse_unknown_keys(path, document)
    try:
        plan = msgspec.convert(document, PlanFile)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"plan {path}: {str(error).replace('`', chr(39))}", hint="`qdqtool explain files` shows the schema"
        ) from None
    if plan.schema_version != SCHEMA_VERSION:
        raise UsageError(f"plan {path} has schema_version {plan.schema_version}; this qdqtool reads {SCHEMA_VERSION}")
    if not plan.tensors:
        raise UsageError(f"plan {path} names no tensor: it has no [[tensors]] entry")
    return plan


def read_numbers(value: float | list[Any] | ArrayRef, folder: Path, what: str) -> npt.NDArray[np.generic]:
    """Return a scale or zero point of a plan entry as an array.

    Args:
        value: The number, nested lists, or reference.
        folder: The folder to which file references are relative.
        what: The name of the number in messages, such as ``scale of tensor 'w'``.

    Raises:
        UsageError: The lists are ragged or contain anything but numbers, or the reference leads nowhere.
    """
    if isinstance(value, ArrayRef):
        return _stored_array(value, folder, what)
    try:
        array = np.asarray(value)
    except ValueError:
        raise UsageError(f"{what}: the nested lists differ in length") from None
    if array.dtype.kind not in "iuf":
        raise UsageError(f"{what}: {value!r} is not a number or (nested) list of numbers")
    return array


def _parse(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise UsageError(
                f"plan {path} is larger than {MAX_PLAN_BYTES >> 20} MiB", hint="keep arrays in an npz file"
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"plan {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"plan {path} is not a text file") from None
    try:
        return json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    # Both parsers raise RecursionError on deep nesting, which is not a ValueError.
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise UsageError(f"plan {path} is not valid {kind}: {error}") from None


def _refuse_unknown_keys(path: Path, document: Any) -> None:
    if not isinstance(document, dict):
        raise UsageError(f"plan {path} holds no table of keys", hint="`qdqtool explain files` shows the schema")
    _check_keys(document, PlanFile.__struct_fields__, f"plan {path}")
    entries = document.get("tensors")
    for number, entry in enumerate(entries if isinstance(entries, list) else [], start=1):
        if isinstance(entry, dict):
            _check_keys(entry, PlanEntry.__struct_fields__, f"plan {path}, entry {number}")


def _check_keys(table: dict[str, Any], legal: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in legal:
            raise UsageError(f"{where}: unknown key '{key}'; legal: {', '.join(legal)}{suggestion(key, legal)}")


def _stored_array(reference: ArrayRef, folder: Path, what: str) -> npt.NDArray[np.generic]:
    path = folder / reference.file
    try:
        stored, names = _open_store(path, reference.key)
    except OSError as error:
        raise UsageError(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    # np.load raises ValueError for pickles and broken headers, BadZipFile for a broken npz, EOFError for an empty file.
    except DAMAGED_ARCHIVE:
        raise UsageError(
            f"{what}: {path} is no readable npz or safetensors file (pickled objects are refused)"
        ) from None
    if stored is None:
        shown = ", ".join(sorted(names)[:8])
        raise UsageError(
            f"{what}: {path} has no array '{reference.key}'; it has {shown}{suggestion(reference.key, names)}"
        )
    # The dtype kind of bfloat16 from ml_dtypes is "V".
    if stored.dtype.kind not in "iuf" and stored.dtype.name not in {"bfloat16", "float16"}:
        raise UsageError(f"{what}: array '{reference.key}' of {path} has type {stored.dtype}, not a number type")
    return stored


def _open_store(path: Path, key: str) -> tuple[npt.NDArray[np.generic] | None, list[str]]:
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                names = list(file.keys())
                return (np.asarray(file.get_tensor(key)) if key in names else None), names
        except SafetensorError as error:
            raise ValueError(str(error)) from error
    # NumPy does not close a damaged file that it opened itself.
    with path.open("rb") as stream:
        loaded = np.load(stream, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise ValueError("a single array, not an npz")
        with loaded as file:
            return (np.asarray(file[key]) if key in file.files else None), list(file.files)


SCALES_ONLY = "this plan stores only the scales: inserting it rounds to the nearest codes"
"""The addition to the reason of a weight whose codes were chosen with data."""


def encode_plan(plan: QuantPlan, model_sha256: str | None = None) -> bytes:
    """Return the plan as an indented JSON plan file (``docs/reference/files.md``) that holds all numbers.

    Scales are written so that reading them gives the same bits. Consumers are named by their first output. Codes that
    were chosen with data are not stored; :data:`SCALES_ONLY` is then added to the ``reason`` of the weight.
    """
    known = {"model_sha256": model_sha256} if model_sha256 is not None else {}
    document = {"schema_version": SCHEMA_VERSION, **known, "tensors": [_entry(placement) for placement in plan]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _entry(placement: Placement) -> dict[str, Any]:
    slot, params = placement.slot, placement.params
    entry: dict[str, Any] = {"tensor": slot.tensor, "scope": display(slot.scope)}
    if slot.uses is not None:
        # The first output with a name: optional outputs of a node may be empty.
        entry["consumers"] = list(dict.fromkeys(next(filter(None, use.node)) for use in slot.uses))
    entry["format"] = params.scheme.format.name
    entry |= qdq_attributes(params)
    # JSON has one number type. Every scale type fits in float64, whose shortest decimal form reads as the same number.
    entry["scale"] = params.scale.astype(np.float64).tolist()
    inner = params.scheme.scale_scheme
    if inner is not None:
        entry["scale_format"] = inner.format.name
    if params.scale_params is not None:
        entry["scale_scale"] = float(params.scale_params.scale)
    if params.zero_point is not None:
        entry["zero_point"] = params.zero_point.astype(np.int64).tolist()
    reason = placement.reason if placement.codes is None else f"{placement.reason}; {SCALES_ONLY}"
    return {**entry, "reason": reason}
