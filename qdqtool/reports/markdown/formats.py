"""The number formats as Markdown: a table of their properties, and a table of the targets that accept them.

``make generated`` writes the page; a test fails if the page is not current.
"""

from qdqtool.models import targets
from qdqtool.models.targets import Target
from qdqtool.numerics import formats
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.registry import load_unit

_INTRODUCTION = """\
# Number formats

These are the formats of codes and scales. [Numerics](numerics.md) defines how a value becomes a code.

* *range*: the smallest and the largest finite value.
* *overflow*: the result for values that round beyond the range when `saturate` is 0.
* *stored*: how many elements fill how many bytes of a TensorProto's raw data, the first element in the low bits.
* *Q*, *DQ*, *scale*: the first ONNX opset in which the format may be the output of QuantizeLinear, the input of
  DequantizeLinear, or the type of a scale.
"""

_ACCEPTANCE = """\
## Who accepts them

* *Q* and *DQ*: the target takes the format there.
* *symmetric*: it takes a zero point of 0 only.
* *scale*: it takes the format as the type of a scale.
* *sm 89*, *sm 90*, *sm 120*: the kernel needs a GPU of this generation (Ada, Hopper, Blackwell).
"""


def page() -> str:
    """Return the whole page."""
    every = [formats.get(name) for name in formats.names()]
    aims = [targets.get(name) for name in targets.names()]
    what = _table(
        ["format", "what it is", "bits", "range", "zero point", "overflow", "stored", "Q", "DQ", "scale"],
        [_facts(fmt) for fmt in every],
    )
    who = _table(
        ["format", *(aim.id for aim in aims)], [[fmt.name, *(_accepts(aim, fmt) for aim in aims)] for fmt in every]
    )
    measured = "\n".join(f"* *{aim.id}*: {aim.title}; {aim.verified}" for aim in aims)
    return f"{_INTRODUCTION}\n{what}\n\n{_ACCEPTANCE}\n{who}\n\n{measured}\n"


def _facts(fmt: NumberFormat) -> list[str]:
    opsets = (fmt.first_opset.quantize, fmt.first_opset.dequantize, fmt.first_opset.scale)
    return [
        fmt.name,
        (load_unit(formats, fmt.name).__doc__ or "").strip().removesuffix("."),
        str(fmt.bits),
        _range(fmt),
        {"any": "any in range", "zero": "0"}[fmt.zero_point] if fmt.first_opset.dequantize else "",
        fmt.overflow,
        _stored(fmt),
        *("" if opset is None else str(opset) for opset in opsets),
    ]


def _range(fmt: NumberFormat) -> str:
    if fmt.name == "float8e8m0":
        return "2^-127 to 2^127"
    return f"{fmt.low:,.10g} to {fmt.high:,.10g}"


def _stored(fmt: NumberFormat) -> str:
    elements = next(count for count in (1, 2, 4) if count * fmt.bits % 8 == 0)
    size = fmt.stored_bytes(elements)
    return f"{elements} in {size} byte{'s' if size > 1 else ''}"


def _accepts(target: Target, fmt: NumberFormat) -> str:
    roles = []
    if fmt.name in target.quantize_types:
        roles.append("Q")
    if fmt.name in target.dequantize_types:
        roles.append("DQ")
    if roles and fmt.name in target.symmetric_types:
        roles.append("symmetric")
    if fmt.name in target.scale_types:
        roles.append("scale")
    generation = target.min_compute_capability.get(fmt.name)
    if roles and generation:
        roles.append(f"sm {generation}")
    return ", ".join(roles) or "-"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
