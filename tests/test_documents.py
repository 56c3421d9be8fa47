"""Reports as JSON documents."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from qdqtool.documents import encode_report, report_document
from qdqtool.report import json as printed


@dataclass(frozen=True, slots=True)
class Example:
    path: Path
    numbers: tuple[float, ...]
    names: frozenset[str]


EXAMPLE = Example(Path("a/b"), (1.5, math.nan, math.inf), frozenset({"x"}))


def test_a_document_is_what_a_parser_makes_of_the_printed_report():
    expected = {"schema_version": 1, "path": "a/b", "numbers": [1.5, None, None], "names": ["x"]}
    assert report_document(EXAMPLE) == json.loads(encode_report(EXAMPLE)) == expected
    assert json.loads(printed.render(EXAMPLE)) == expected
