"""Shape options: the same spellings and the same mistakes for every command."""

import pytest

from qdqtool.errors import UsageError
from qdqtool.samples.input_shapes import parse_numbers, parse_shapes, parse_values


@pytest.mark.parametrize(
    ("parse", "words", "expected"),
    [
        (parse_shapes, [], {}),
        (parse_shapes, ["x:1x3x320x320"], {"x": (1, 3, 320, 320)}),
        (parse_shapes, ["x:1X3"], {"x": (1, 3)}),
        (parse_shapes, ["x:[1,3,320,320]"], {"x": (1, 3, 320, 320)}),
        (parse_shapes, ["x:1x3,mask:[1, 3],n:7"], {"x": (1, 3), "mask": (1, 3), "n": (7,)}),
        (parse_shapes, ["x:1x3", "mask:2,n:7"], {"x": (1, 3), "mask": (2,), "n": (7,)}),
        (parse_shapes, ["input:0:1x3"], {"input:0": (1, 3)}),
        (parse_shapes, ["a/b.c:2x2,model:x:1:4"], {"a/b.c": (2, 2), "model:x:1": (4,)}),
        (parse_shapes, ["scalar:[]"], {"scalar": ()}),
        (parse_shapes, ["cache:1x2x0x32,x:[0,3]"], {"cache": (1, 2, 0, 32), "x": (0, 3)}),
        (parse_values, ["shape:2x-1x0"], {"shape": (2, -1, 0)}),
        (parse_values, ["shape:[2,-1, 0],n:-3", "k:5"], {"shape": (2, -1, 0), "n": (-3,), "k": (5,)}),
        (parse_values, ["a:0:1x3"], {"a:0": (1, 3)}),
    ],
)
def test_spellings_of_shapes_and_of_values_which_may_be_negative(parse, words, expected):
    assert parse(words, "--option") == expected


@pytest.mark.parametrize(
    ("parse", "words", "message"),
    [
        (parse_shapes, [""], "--option is empty"),
        (parse_shapes, ["x"], "'x' cannot be read"),
        (parse_shapes, ["x:"], "cannot be read"),
        (parse_shapes, [":3"], "cannot be read"),
        (parse_shapes, ["x:1x"], "cannot be read"),
        (parse_shapes, ["x:1xfoo"], "cannot be read"),
        (parse_shapes, ["x:1x\u0663"], "cannot be read"),
        (parse_shapes, ["x:1x3,y"], "cannot be read from 'y' on"),
        (parse_shapes, ["x:-1x3"], "cannot be read"),
        (parse_shapes, ["x:1,x:2"], "names 'x' twice"),
        (parse_shapes, ["x:1", "x:2"], "names 'x' twice"),
        (parse_values, ["n:[]"], "gives 'n' no value"),
        (parse_values, ["n:1--2"], "cannot be read"),
        (parse_values, ["n:1.5"], "cannot be read"),
        (parse_values, ["n:1,n:2"], "names 'n' twice"),
    ],
)
def test_what_cannot_be_read(parse, words, message):
    with pytest.raises(UsageError, match=message):
        parse(words, "--option")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sr:16000"], {"sr": (16000,)}),
        (["sr:-007,t:0.5", "f:true,g:false"], {"sr": (-7,), "t": (0.5,), "f": (True,), "g": (False,)}),
        (["a:0:1e3,b:-2.5E-1"], {"a:0": (1000.0,), "b": (-0.25,)}),
        (["sizes:[64, 32],k:2x-3"], {"sizes": (64, 32), "k": (2, -3)}),
    ],
)
def test_numbers_are_read_as_what_they_look_like(words, expected):
    found = parse_numbers(words, "--input-values")
    assert found == expected
    assert {name: [type(each) for each in values] for name, values in found.items()} == {
        name: [type(each) for each in values] for name, values in expected.items()
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sr"], "'sr' cannot be read"),
        (["sr:"], "cannot be read"),
        (["sr:16k"], "cannot be read"),
        (["sr:.5"], "cannot be read"),
        (["sr:nan"], "cannot be read"),
        (["sr:True"], "cannot be read"),
        (["sr:[]"], "gives 'sr' no value"),
        (["sr:1,sr:2"], "names 'sr' twice"),
        (["sr:\u0663"], "cannot be read"),
    ],
)
def test_numbers_that_cannot_be_read(words, message):
    with pytest.raises(UsageError, match=message) as error:
        parse_numbers(words, "--input-values")
    assert "cannot" not in message or error.value.hint == (
        "write it as name:16000, name:true, name:0.5 or name:[1,3], several separated by commas"
    )
