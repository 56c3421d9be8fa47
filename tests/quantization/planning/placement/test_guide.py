"""The placement guide is true: its examples are placed as it says, and it names every operator that we know of."""

import re

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.paths import ROOT
from support.placed import proposal

from qdqtool.models import ops
from qdqtool.models.ops import LEAST_CHANNELS
from qdqtool.models.ops.conv import LARGEST_FLOAT_KERNEL
from qdqtool.quantization.planning.placement.masks import MASKING

GUIDE = (ROOT / "docs/explanation/placement.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```onnx\n(?P<graph>.*?)```\n\n(?P<pairs>Pairs: .*?)\n\n", re.DOTALL)
EXAMPLES = {each["graph"].split()[0]: (each["graph"], each["pairs"]) for each in EXAMPLE.finditer(GUIDE)}


def with_weights(text: str) -> onnx.ModelProto:
    """The model of an example: tensors that nothing makes become random constants."""
    graph = onnx.parser.parse_graph(text)
    made = {name for node in graph.node for name in node.output}
    random = np.random.default_rng(3)
    for info in graph.value_info:
        if info.name not in made:
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            graph.initializer.append(numpy_helper.from_array(random.normal(size=shape).astype(np.float32), info.name))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def names(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def test_there_are_examples():
    assert {"chain", "block", "joined", "attention"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_placed_as_the_guide_says(name):
    graph, said = EXAMPLES[name]
    pairs, weights, nothing = re.fullmatch(
        r"Pairs: (.*?); (per-axis \d: .*?)\. None on (.*?)\.", said.replace("\n", " ")
    ).groups()
    axis, _, weights = weights.partition(": ")
    found = proposal(with_weights(graph)).slots
    assert {slot.slot.tensor for slot in found if slot.kind == "activation"} == names(pairs)
    assert {slot.slot.tensor: str(slot.scheme.granularity) for slot in found if slot.kind == "weight"} == dict.fromkeys(
        names(weights), axis
    )
    assert names(nothing) & {slot.slot.tensor for slot in found} == set()


def test_the_guide_names_every_operator_that_is_quantized_or_left_with_a_reason():
    families = [family for family in ops.families() if not family.domain]
    assert [op for family in families for op in family.op_types if op not in GUIDE] == []


@pytest.mark.parametrize(
    "fact",
    [f"up to {LARGEST_FLOAT_KERNEL} elements", f"below {LEAST_CHANNELS} channels", f"of {MASKING:.0f} and below"],
)
def test_the_numbers_of_the_guide_are_those_of_the_code(fact):
    assert fact in GUIDE
