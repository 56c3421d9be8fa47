"""The base class of rules: attributes, a docstring that explains the rule, examples that test it, and the check."""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from string import Template
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import onnx.parser

from qdqtool.linting.findings import Effect, Extent, Finding, Severity
from qdqtool.linting.rules.support.fix import Fix, Offer
from qdqtool.linting.rules.support.rule_context import Memo, RuleContext
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.scope import display
from qdqtool.models.targets import Target

EXAMPLE_HEADER = '<ir_version: 10, opset_import: ["": 21]>\n'
EXAMPLE_PARTS = {
    "ONE_PAIR": """agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }""",
    "PAIR_TO_Y": """q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)""",
    "PAIR_TO_XD": """q = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (q, s, z)""",
}
"""Replacements of ``$NAME`` in all examples: a model of one pair, and a pair of x with the output y or xd."""


@dataclass(frozen=True, slots=True)
class Impact:
    """The impact of a fault on a target."""

    severity: Severity
    effect: Effect


REFUSED = Impact("error", "refused")
SILENT = Impact("error", "silent")
SUSPECT = Impact("warning", "silent")
FALLBACK = Impact("warning", "fallback")
CAUTION = Impact("warning", "advice")
ADVICE = Impact("info", "advice")


def impacts(**by_target: Impact) -> Mapping[str, Impact]:
    """Return the impacts by target id or target family. Names are written with ``_`` for ``-``."""
    return MappingProxyType({target.replace("_", "-"): impact for target, impact in by_target.items()})


@dataclass(frozen=True, slots=True)
class Example:
    """A model as ONNX text that a rule accepts or reports.

    In this text, values of float16, bfloat16, fp8 and 4-bit initializers are written as raw bits.

    Attributes:
        title: What the example shows.
        text: The model. If it starts with the graph, :data:`EXAMPLE_HEADER` is added.
        targets: Ids of the targets of the example; empty for all targets that the rule affects.
        compute_capabilities: The GPUs of the example, 86 for 8.6; empty for no GPU in particular.
    """

    title: str
    text: str
    targets: tuple[str, ...] = ()
    compute_capabilities: tuple[int, ...] = ()

    def model(self) -> onnx.ModelProto:
        """The parsed model."""
        text = inspect.cleandoc(self.text)
        return onnx.parser.parse_model(text if text.startswith("<") else EXAMPLE_HEADER + text)


_TITLE = re.compile(r"^(?P<title>\S.*?)(?: \[(?P<scope>[a-z].*)\])?:$", re.MULTILINE)


def examples(text: str, **parts: str) -> tuple[Example, ...]:
    """Return the examples of a text. Each has a line ``TITLE:``, followed by the indented model.

    ``TITLE [TARGET, ...]:`` gives the targets of an example, ``TITLE [sm_86]:`` the GPUs.

    Args:
        text: The examples.
        parts: Replacements of ``$NAME`` in this text, in addition to :data:`EXAMPLE_PARTS`.
    """
    text = inspect.cleandoc(Template(text).substitute(EXAMPLE_PARTS, **parts))
    titles = list(_TITLE.finditer(text))
    ends = [title.start() for title in titles[1:]] + [len(text)]
    return tuple(_example(title, text[title.end() : end]) for title, end in zip(titles, ends, strict=True))


def _example(heading: re.Match[str], body: str) -> Example:
    words = heading["scope"].split(", ") if heading["scope"] else []
    return Example(
        heading["title"],
        inspect.cleandoc(body),
        targets=tuple(word for word in words if not word.startswith("sm_")),
        compute_capabilities=tuple(int(word[3:]) for word in words if word.startswith("sm_")),
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a rule found at one place. A :class:`Finding` is made of it and the rule's attributes.

    Attributes:
        message: One line with the value found. Strings from the model are not escaped.
        node: The node at fault; None for faults of the whole model.
        tensor: The tensor at fault.
        expected: The legal value or values.
        found: The value found.
        extent: How bad the fault is; only for values that can get worse in a model that the target still loads.
        impact: The impact of this fault, if it differs from the rule's usual impact on the target.
        fixes: Alternative fixes, the best one first. A later fix is used if the earlier ones cannot be applied.
        fixed_by: The offer of another fault whose fix also removes this fault.
        cause: The common cause of many faults like this, if it is not the rule's usual cause.
    """

    message: str
    node: NodeView | None = None
    tensor: Value | str | None = None
    _: KW_ONLY
    expected: str | None = None
    found: str | None = None
    extent: Extent | None = None
    impact: Impact | None = None
    fixes: tuple[Fix, ...] = ()
    fixed_by: Offer | None = None
    cause: str = ""


Faults: TypeAlias = Iterator[Fault]
"""The faults that a check yields."""


class Rule(ABC):
    """One rule of the linter.

    The first line of a subclass's docstring is its summary; paragraphs that begin with ``Why it matters:``, ``Bad:``
    and ``Good:`` follow.

    Attributes:
        code: Stable code, such as ``QP101``.
        name: Dotted name, such as ``parameters.scale-value``.
        since: The version of qdqtool that introduced the rule.
        affects: Impact of a fault by target id or target family. Targets that are not listed are not checked.
        remedy: What to do about a fault, in one line.
        offers: The kinds of fix that ``--fix`` can apply, the best one first.
        cause: The common cause if findings of the rule repeat, in words; empty if there is none.
        asks_parser: Whether the rule reports only faults that TensorRT's parser found.
        VALID: Models that the rule accepts. TensorRT for RTX must be able to build them if the rule affects TensorRT.
        INVALID: Models that the rule reports.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    since: ClassVar[str] = "0.1.0"
    affects: ClassVar[Mapping[str, Impact]]
    remedy: ClassVar[str]
    offers: ClassVar[tuple[Offer, ...]] = ()
    cause: ClassVar[str] = ""
    asks_parser: ClassVar[bool] = False
    VALID: ClassVar[tuple[Example, ...]]
    INVALID: ClassVar[tuple[Example, ...]]

    @abstractmethod
    def check(self, context: RuleContext, target: Target) -> Faults:
        """Yield every fault of the model for ``target``. The rule affects this target."""

    def impact(self, target: Target) -> Impact | None:
        """Return the usual impact of a fault on ``target``, or None if the rule does not affect it."""
        return self.affects.get(target.id) or self.affects.get(target.family)

    def run(self, context: RuleContext, target: Target) -> Iterator[Finding]:
        """Yield the findings of the model for ``target``."""
        return (finding for finding, _ in self.locate(context, target))

    def locate(self, context: RuleContext, target: Target) -> Iterator[tuple[Finding, Fault]]:
        """Yield the findings of the model for ``target``, each with its fault."""
        usual = self.impact(target)
        if usual is None:
            return
        memo: Memo[Fault] = context.memo(self.code)
        for fault in memo.recall(target, lambda watched: self.check(context, watched)):
            if target.family != "tensorrt" or not context.is_replaced(fault.node):
                yield self._finding(fault, fault.impact or usual), fault

    def _finding(self, fault: Fault, impact: Impact) -> Finding:
        node, tensor = fault.node, fault.tensor
        offers = [fault.fixed_by, *(fix.offer for fix in fault.fixes if not fix.is_ruled_out)]
        return Finding(
            code=self.code,
            name=self.name,
            severity=impact.severity,
            effect=impact.effect,
            message=fault.message,
            node=node.label if node is not None else None,
            op_type=node.op_type if node is not None else None,
            tensor=tensor.name if isinstance(tensor, Value) else tensor,
            graph=display(node.scope.path) if node is not None else "",
            expected=fault.expected,
            found=fault.found,
            extent=_extent(fault, impact),
            fixable=bool(fault.fixes or fault.fixed_by),
            safe_fix=any(each is not None and each.label == "safe" for each in offers),
            cause=fault.cause or self.cause,
        )


def _extent(fault: Fault, impact: Impact) -> Extent | None:
    # A target that refuses the model does so for any number of wrong values, and for any size of the error.
    if fault.extent is None or impact.effect != "refused":
        return fault.extent
    return Extent(fault.extent.kind)
