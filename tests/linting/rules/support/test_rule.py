"""What a finding says of its fault."""

import pytest
from support.one_rule import faults


@pytest.mark.parametrize(
    ("extent", "size", "labels"),
    [
        # Smaller blocks divide the axis, with the same scales.
        (10, 4, ["safe", "unsafe"]),
        # Only new scales do.
        (5, 3, ["unsafe"]),
        # A scale for every element.
        (4, 1, []),
    ],
)
def test_a_finding_says_whether_it_has_a_fix_and_a_safe_one(extent: int, size: int, labels: list[str]):
    text = f"""agraph (int8[{extent},2] w, float[{-(-extent // size)},2] s) => (y) {{
        y = DequantizeLinear <axis = 0, block_size = {size}> (w, s)
    }}"""

    ((finding, fault),) = faults("QA203", text)

    assert [fix.offer.label for fix in fault.fixes] == labels
    assert (finding.fixable, finding.safe_fix) == (bool(labels), "safe" in labels)
