"""QM603: quantized weights that are stored as float."""

from collections.abc import Sequence

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.fixes.stored import parameters
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule import ADVICE, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.linting.rules.support.words import format_of
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.io.tensors import element_count, nbytes, read_array
from qdqtool.models.targets import Target, type_name
from qdqtool.numerics.affine import quantize

LEAST_SAVED = 1_000_000
"""Smallest saving that is reported, in bytes."""
FLOATS = frozenset({"float32", "float16", "bfloat16", "float64"})

PACKED = Offer("safe", "stores the codes that the Q makes, for all such weights of the model")


class WideWeight(Rule):
    """Quantized weights are stored as codes.

    Why it matters: on disk and while the model loads, a float32 weight before a Q takes four times the space of int8
    codes, or eight times that of int4 codes. The results are the same. Training and refitting need the float form.
    Savings below a megabyte are not reported.

    Bad: a float32 weight, Q, DQ.

    Good: an int8 weight, DQ.
    """

    code = "QM603"
    name = "model.wide-weight"
    affects = impacts(onnx=ADVICE, ort_cpu=ADVICE, tensorrt=ADVICE)
    remedy = "store the codes, unless the model is to be trained or refitted"
    offers = (PACKED,)
    VALID = examples("""
        int8 codes:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
    """)
    # A weight that is large enough for a report is too large for an example in ONNX text.
    INVALID = ()

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Add up the savings of all such weights, and report them together at the largest weight."""
        sizes = {entry: size for entry in context.qdq.quantizers() if (size := _stored(entry)) is not None}
        wide, narrow = (sum(pair[index] for pair in sizes.values()) for index in (0, 1))
        if wide - narrow < LEAST_SAVED:
            return
        largest = max(sizes, key=lambda entry: sizes[entry][0])
        message = f"{len(sizes)} quantized weights are stored as float, in {wide} bytes; as codes they take {narrow}"
        found = f"{wide} bytes"
        extent = Extent("", wide - narrow)
        fix = PACKED.fix(f"stores the codes of {len(sizes)} weights", _pack, tuple(sizes))
        yield Fault(
            message, largest.node, largest.data, found=found, expected=f"{narrow} bytes", extent=extent, fixes=(fix,)
        )


def _stored(entry: QdqNode) -> tuple[int, int] | None:
    """Return the size of the float initializer of a Q and of its codes, in bytes; None if there is no initializer."""
    stored = entry.data.initializer if entry.data is not None else None
    made = format_of(entry.quantized_type)
    if stored is None or made is None or type_name(stored.data_type) not in FLOATS:
        return None
    return nbytes(stored), (element_count(stored) * made.bits + 7) // 8


def _pack(entries: Sequence[QdqNode], draft: Draft) -> None:
    for entry in entries:
        _store_codes(entry, draft)


def _store_codes(entry: QdqNode, draft: Draft) -> None:
    model, fmt, given = draft.context.model, format_of(entry.quantized_type), parameters(draft.context, entry)
    weight = entry.data.initializer if entry.data is not None else None
    assert weight is not None
    assert fmt is not None
    if entry.output is None:
        raise UnfitError("the Q has no output")

    def make() -> Array:
        return quantize(read_array(model, weight), given.scale, fmt, given.granularity, given.zero_point)

    like = shaped(weight, fmt.onnx_type)
    draft.replace(entry.output, draft.weights(entry.node.scope, f"{weight.name}_quantized", like, make))
