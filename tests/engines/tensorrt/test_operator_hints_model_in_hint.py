"""Commands in hints name the model."""

from pathlib import Path

import pytest

from qdqtool.engines.tensorrt.operator_hints import with_path


@pytest.mark.parametrize(
    ("hint", "path", "expected"),
    [
        ("`qdqtool strip MODEL -o OUT.onnx` does it", "a/m.onnx", "`qdqtool strip a/m.onnx -o OUT.onnx` does it"),
        ("`one MODEL`, `two MODEL`", "m.onnx", "`one m.onnx`, `two m.onnx`"),
        ("`check MODEL`", "my model.onnx", "`check 'my model.onnx'`"),
        ("`check MODEL`", r"a\1.onnx", r"`check 'a\1.onnx'`"),
        ("the word MODEL stays, and so does `REMODELED`", "m.onnx", "the word MODEL stays, and so does `REMODELED`"),
        ("nothing to paste", "m.onnx", "nothing to paste"),
    ],
)
def test_the_path_stands_for_the_word(hint: str, path: str, expected: str):
    assert with_path(hint, Path(path)) == expected
