"""Facts about an engine from its builder, as data: inputs, the precision of nodes, refusals."""

from dataclasses import dataclass
from typing import Literal

from qdqtool.models.graph.report import ModelFile
from qdqtool.results import Report

Evidence = Literal["aot-dump", "inspector", "none"]
Stage = Literal["validate", "parse", "build", "locked"]

NO_PLUGIN = "TensorRT took no plugin for"
"""The beginning of the warning about nodes that are declared as plugins but are none in the engine."""


@dataclass(frozen=True, slots=True)
class InputProfile:
    """The shapes that an engine must accept for one dynamic input.

    Attributes:
        name: The input.
        min: Smallest extents.
        opt: The extents for which kernels are chosen.
        max: Largest extents.
        profile: Index of the optimization profile to which these shapes belong.
    """

    name: str
    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]
    profile: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrecision:
    """The planned type of one quantized node, and the type in which the engine runs it.

    Attributes:
        name: Label of the node.
        op_type: Its operator.
        graph: Its scope, empty for the main graph.
        planned: The type that its Q/DQ request: ``int8``, ``float8e4m3fn``, ``int4-weight-only``, ….
        actual: The type in which its kernel multiplies: a float type for a fallback, ``unknown`` without evidence.
        kernel: The kernel that computes it; None if the dump names none.
        reason: Why ``actual`` differs from ``planned``, in plain words.
    """

    name: str
    op_type: str
    planned: str
    actual: str
    graph: str = ""
    kernel: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why the validate gate, the parser or the builder refuses a model.

    Attributes:
        reason: The reason in plain words; it starts in lower case and has no full stop.
        message: The builder's own message without CUDA noise; empty if the builder was not run.
        node: Label of the node at fault; None if the builder names none.
        op_type: Operator of that node.
        hint: How to fix the model, with ``MODEL`` for its path; None if that is unknown.
        code: Code of the ``validate`` rule that finds the fault; None if no rule does.
        tensor: Name of the tensor at fault; None if the builder names none.
        explained: Whether ``reason`` explains the message; False if it only repeats the message.
        rules: Codes of the ``validate`` rules that may find the node.
    """

    reason: str
    message: str = ""
    node: str | None = None
    op_type: str | None = None
    hint: str | None = None
    code: str | None = None
    tensor: str | None = None
    explained: bool = True
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedLayer:
    """One layer of an engine that another tool may have built.

    Attributes:
        name: The builder's name for it.
        layer_type: The builder's class of layers: ``CaskConvolution``, ``Reformat``, ``kgen``, …; empty if unknown.
        nodes: The ONNX nodes that it computes, in the parser's spelling. TensorRT 8 lists none: then these are nodes of
            the given model in the name of the layer.
        reads: Types of the tensors that it reads, each once.
        constants: Types of the constants that it multiplies, each once.
        writes: Types of the tensors that it writes, each once.
        computes: The type that it multiplies in, or the types that it reads if it is not known to multiply;
            ``unknown`` if the file does not give them.
        conversion: ``reformat`` if it only converts types or formats; ``fused`` if it turns floats into codes or back
            as a part of other work, without a product; None for other layers.
        milliseconds: Its mean time in one inference; None if it is unknown.
    """

    name: str
    layer_type: str
    nodes: tuple[str, ...]
    reads: tuple[str, ...]
    constants: tuple[str, ...]
    writes: tuple[str, ...]
    computes: str
    conversion: Literal["reformat", "fused"] | None
    milliseconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTotal:
    """The layers of one kind.

    Attributes:
        kind: ``int8``, ``float16``, … for what the layers compute in, ``reformat``, or ``unknown``. For conversions:
            the types that they read and write, and the type of layer.
        layers: How many there are.
        milliseconds: Sum of their times; None if no time is known.
    """

    kind: str
    layers: int
    milliseconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedNode(NodePrecision):
    """A quantized node of the model, with the time of its layer.

    Attributes:
        milliseconds: Mean time of the layer, which may compute other nodes too; None if it is unknown.
    """

    milliseconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMap(Report):
    """The layers of an engine, from the layer information of trtexec, with times from its profile.

    Attributes:
        layer_file: The file with the layers, or the manifest.
        profile: The profile; None without a profile.
        model: The ONNX model; None without a model.
        model_file: Digests of the model; None without a model.
        evidence: The source of the types; ``none`` if the file has only names.
        runs: How many inferences were timed; None without a profile.
        milliseconds: Sum of all times of the profile, in one inference; None without a profile.
        unmatched: Timed layers that the layer file lacks, or has another number of times.
        unmatched_milliseconds: Their time, which is ``unknown`` in ``by_type``; None without a profile.
        planned: Number of quantized nodes of the model by the type that their Q/DQ request.
        achieved: How many of these nodes run in that type.
        nodes: Every quantized node of the model; empty without a model.
        by_type: Layers and times by type; the times add up to ``milliseconds``.
        conversions: Layers and times of conversions; fused ones are in ``by_type`` with the type that they read.
        layers: The layers in the order in which they run.
    """

    layer_file: str
    profile: str | None
    model: str | None
    model_file: ModelFile | None
    evidence: Evidence
    runs: int | None
    milliseconds: float | None
    unmatched: tuple[str, ...]
    unmatched_milliseconds: float | None
    planned: dict[str, int]
    achieved: dict[str, int]
    nodes: tuple[TimedNode, ...]
    by_type: tuple[LayerTotal, ...]
    conversions: tuple[LayerTotal, ...]
    layers: tuple[MappedLayer, ...]
