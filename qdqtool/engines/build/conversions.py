"""Find the conversions between floats and codes that the ahead-of-time layer dump of an engine proves.

A kernel that reads only floats and writes codes quantizes. A kernel that reads codes and writes only floats
dequantizes. The node names of a kernel alone are no proof: a kernel that adds the bias after an int8 product also names
the DequantizeLinear before it. So a conversion is proven only if types and node names agree. An engine may have more
conversions than the proven ones.

A stub is a kernel that the GPU chooses at first use. The GPU may then join it with a generated kernel that reads its
float output. So it is *unknown* whether this tensor exists, and no conversion in the reading kernel counts as proven.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qdqtool.engines.build.plan_edits import FloatCopies, PlanEdits
from qdqtool.engines.build.report import Conversion, ConversionKind, Conversions, PlanEdit, UnknownConversion
from qdqtool.engines.tensorrt.builder import Built
from qdqtool.engines.tensorrt.kernels import FLOATS, Kernel, KernelTensor, is_quantized
from qdqtool.engines.tensorrt.planned_types import PlannedNode, planned_nodes
from qdqtool.engines.tensorrt.precision import computes_in, is_product, multiplies, names_node, product_kernel
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.model import Model

# The name of a generated kernel lists its steps in order. Measured with RTX on an int8 pair before a Sigmoid or
# Softmax: MulMinMaxRounCast is the QuantizeLinear, CastMul the DequantizeLinear.
_PAIR_INSIDE = "MinMaxRounCastCastMul"


def find_conversions(model: Model, built: Built) -> Conversions | None:
    """Return the conversions of an engine, or None without an ahead-of-time dump, the only evidence that was tested."""
    if built.evidence != "aot-dump":
        return None
    found = _Finder(model, built.kernels)
    return Conversions(proven=tuple(found.proven()), unknown=tuple(found.unknown()))


class _Finder:
    """Finds the conversions of one engine; kernels are identified by their place in the dump."""

    def __init__(self, model: Model, kernels: tuple[Kernel, ...]) -> None:
        index = ModelIndex.of(model)
        self._qdq, self._edits, self._copies = index.qdq, PlanEdits(index), FloatCopies(index, kernels)
        self._graph_inputs = {entry.name for entry in model.proto.graph.input}
        self._kernels = kernels
        self._products = [(entry, product_kernel(entry.node, kernels)) for entry in planned_nodes(model)]
        self._undecided = list(self._undecided_inputs())

    def proven(self) -> Iterator[Conversion]:
        for kernel, undecided in zip(self._kernels, self._undecided, strict=True):
            if not undecided:
                yield from self._steps(kernel)
                yield from self._fallbacks(kernel)
            yield from self._float_copies(kernel)

    def _steps(self, kernel: Kernel) -> Iterator[Conversion]:
        """Yield the conversion of a kernel if its types and nodes agree."""
        kind = self._step(kernel)
        causes = self._causes(kernel, kind) if kind is not None else []
        if kind is None or not causes:
            return
        if kind == "quantize":
            edit = self._edits.for_quantizers(causes)
        else:
            edit = self._edits.for_dequantizers([entry for entry in causes if not entry.is_quantize])
        yield _with_edit(_conversion(kind, kernel, _labels(causes)), edit)

    def _float_copies(self, kernel: Kernel) -> Iterator[Conversion]:
        # A stub before the kernel may become one kernel with it. The copy exists in any case, because another generated
        # kernel reads it.
        for copy in self._copies.of(kernel):
            edit = self._edits.for_quantizers([copy.quantize])
            shared = replace(edit, shared=copy.shared) if isinstance(edit, PlanEdit) else edit
            yield _with_edit(_conversion("float-copy", kernel, _labels([copy.quantize])), shared)

    def unknown(self) -> Iterator[UnknownConversion]:
        """Yield the undecided float tensors on which a conversion depends."""
        for kernel, undecided in zip(self._kernels, self._undecided, strict=True):
            for tensor, writer in undecided:
                if self._step(kernel) is not None or (writer is not None and _reads_codes(writer)):
                    yield UnknownConversion(
                        tensor=tensor.name,
                        type=tensor.type,
                        bytes=tensor.bytes,
                        written_by=writer.name if writer is not None else None,
                        read_by=kernel.name,
                    )

    def _undecided_inputs(self) -> Iterator[list[tuple[KernelTensor, Kernel | None]]]:
        """Yield for each kernel the float inputs that may not exist on the GPU, each with the kernel that writes it."""
        writers: dict[str, Kernel] = {}
        for kernel in self._kernels:
            floats = [tensor for tensor in kernel.inputs if kernel.is_generated and tensor.type in FLOATS]
            made = [(tensor, writers.get(tensor.name)) for tensor in floats]
            yield [(tensor, writer) for tensor, writer in made if self._may_be_fused(tensor, writer)]
            writers.update({tensor.name: kernel for tensor in kernel.outputs})

    def _may_be_fused(self, tensor: KernelTensor, writer: Kernel | None) -> bool:
        return tensor.name not in self._graph_inputs if writer is None else not writer.is_generated

    def _step(self, kernel: Kernel) -> ConversionKind | None:
        """Return the conversion of a kernel without products, or None if its types show no conversion."""
        if not kernel.is_generated or multiplies(kernel) or any(kernel is product for _, product in self._products):
            return None
        reads_floats = bool(kernel.inputs) and FLOATS.issuperset(kernel.input_types)
        writes_floats = bool(kernel.outputs) and FLOATS.issuperset(kernel.output_types)
        if reads_floats and any(map(is_quantized, kernel.output_types)):
            return "quantize"
        if _reads_codes(kernel) and writes_floats:
            return "dequantize"
        if reads_floats and writes_floats and _PAIR_INSIDE in kernel.name:
            return "quantize-dequantize"
        return None

    def _causes(self, kernel: Kernel, kind: ConversionKind) -> list[QdqNode]:
        """Return the Q/DQ nodes that a kernel names and that fit its conversion."""
        quantizers = [entry for entry in self._qdq.quantizers() if names_node(kernel, entry.node)]
        dequantizers = [entry for entry in self._qdq.dequantizers() if names_node(kernel, entry.node)]
        if kind == "quantize":
            return quantizers
        if kind == "dequantize":
            return [entry for entry in dequantizers if self._reads_its_codes(kernel, entry)]
        pairs = [(self._qdq.quantizer_of(entry), entry) for entry in dequantizers]
        return [node for first, entry in pairs if first is not None and first in quantizers for node in (first, entry)]

    def _reads_its_codes(self, kernel: Kernel, dequantize: QdqNode) -> bool:
        kinds = kernel.weight_types if self._qdq.is_weight(dequantize) else kernel.input_types
        return any(map(is_quantized, kinds))

    def _fallbacks(self, kernel: Kernel) -> Iterator[Conversion]:
        """Yield a conversion for each planned node that a kernel multiplies in floats."""
        for entry, product in self._products:
            if product is kernel and is_product(kernel) and computes_in(kernel) in FLOATS:
                kind: ConversionKind = "dequantize" if _reads_codes(kernel) else "float-operands"
                found = replace(_conversion(kind, kernel, _operand_labels(entry)), node=entry.node.label)
                yield replace(found, edit=self._edits.without([entry.node]))


def _conversion(kind: ConversionKind, kernel: Kernel, causes: tuple[str, ...]) -> Conversion:
    # The int8 constants of a kernel that quantizes are the padding of the tensor that it writes.
    constants = () if kind == "quantize" else kernel.weight_types
    return Conversion(
        kind=kind,
        kernel=kernel.name,
        from_types=tuple(dict.fromkeys((*kernel.input_types, *constants))),
        to_types=tuple(dict.fromkeys(kernel.output_types)),
        qdq=causes,
    )


def _with_edit(conversion: Conversion, edit: PlanEdit | str) -> Conversion:
    if isinstance(edit, str):
        return replace(conversion, no_edit=edit)
    return replace(conversion, edit=edit)


def _reads_codes(kernel: Kernel) -> bool:
    return any(map(is_quantized, (*kernel.input_types, *kernel.weight_types)))


def _labels(entries: Sequence[QdqNode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.node.label for entry in entries))


def _operand_labels(entry: PlannedNode) -> tuple[str, ...]:
    return _labels([operand.dequantize for operand in entry.operands if operand.dequantize is not None])
