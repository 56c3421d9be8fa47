"""Shapes to build for: what becomes of dynamic dimensions."""

import pytest
from onnx import TensorProto, helper

from qdqtool.engines.build.profiles import ShapeOptions, resolve_profiles
from qdqtool.engines.report import InputProfile
from qdqtool.errors import ModelError, UsageError
from qdqtool.samples.input_shapes import parse_shapes


def model(**inputs):
    graph = helper.make_graph(
        [], "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()], []
    )
    return helper.make_model(graph)


IMAGE = model(x=("batch", 3, "height", "width"))


def resolve(proto, **options):
    return resolve_profiles(proto, ShapeOptions(**options))


@pytest.mark.parametrize(
    ("proto", "options", "expected"),
    [
        (model(x=(1, 3, 8, 8)), {}, None),
        (model(x=("N", 3)), {}, [(1, 3)] * 3),
        (model(x=(None, 3)), {}, [(1, 3)] * 3),
        (IMAGE, {"opt": {"x": (1, 3, 9, 9)}}, [(1, 3, 9, 9)] * 3),
        (IMAGE, {"fixed": {"x": (2, 3, 9, 9)}}, [(2, 3, 9, 9)] * 3),
        (
            *(IMAGE, {"min": {"x": (1, 3, 8, 8)}, "max": {"x": (4, 3, 16, 16)}}),
            [(1, 3, 8, 8), (4, 3, 16, 16), (4, 3, 16, 16)],
        ),
    ],
    ids=["static", "batch", "unnamed batch", "opt alone", "fixed", "optimized for the upper end"],
)
def test_the_smallest_the_optimal_and_the_largest_shape(proto, options, expected):
    assert resolve(proto, **options) == ((InputProfile("x", *expected),) if expected else ())


def test_the_batch_symbol_counts_wherever_it_stands():
    profiles = resolve(model(x=("batch", 4), state=(2, "batch", 128)))
    assert {profile.name: profile.opt for profile in profiles} == {"x": (1, 4), "state": (2, 1, 128)}


def test_a_symbol_that_a_shape_settles_is_settled_everywhere():
    proto = model(ids=("batch", "seq"), mask=("batch", "seq"))
    ids, mask = resolve(proto, min={"ids": (1, 8)}, opt={"ids": (4, 64)}, max={"ids": (8, 128)})
    assert (mask.min, mask.opt, mask.max) == (ids.min, ids.opt, ids.max) == ((1, 8), (4, 64), (8, 128))


def test_a_symbol_that_is_named_like_a_number_is_no_number():
    proto = model(x=("3", 4), y=("n", 3))
    _, y = resolve_profiles(proto, ShapeOptions(opt={"x": (7, 4)}), {"y": InputProfile("y", (1, 3), (2, 3), (2, 3))})
    assert (y.min, y.max) == ((1, 3), (2, 3))


def test_a_missing_shape_ends_with_the_option_to_paste():
    with pytest.raises(
        UsageError, match=r"input 'x' \[batch, 3, height, width\] .*: 2 \(height\), 3 \(width\)"
    ) as caught:
        resolve(IMAGE)
    option = caught.value.hint.split("--opt-shapes ")[1].split("` ")[0]
    assert resolve(IMAGE, opt=parse_shapes([option], "--opt-shapes"))[0].opt == (1, 3, 224, 224)


def test_the_option_to_paste_names_all_inputs_that_lack_a_size_and_quotes_odd_names():
    proto = model(**{"a b": ("n", "t"), "c": ("n", "t")})
    with pytest.raises(UsageError, match="and 1 more input has such dimensions") as caught:
        resolve(proto)
    assert "`--opt-shapes 'a b:1x128,c:1x128'`" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opt": {"X": (1, 3, 8, 8)}}, "names 'X', which is no input"),
        ({"opt": {"xx": (1, 3, 8, 8)}}, "did you mean 'x'"),
        ({"opt": {"x": (1, 3, 8)}}, "rank 3"),
        (
            {"fixed": {"x": (1, 4, 8, 8)}},
            r"--input-shapes gives dimension 1 of 'x' size 4; the model declares \[batch, 3",
        ),
        ({"min": {"x": (1, 3, 9, 8)}, "opt": {"x": (1, 3, 8, 8)}}, "dimension 2 has 9, 8, 8"),
        ({"opt": {"x": (1, 3, 8, 8)}, "fixed": {"x": (1, 3, 8, 8)}}, "both --input-shapes and"),
    ],
)
def test_shapes_that_do_not_fit(options, message):
    with pytest.raises(UsageError, match=message):
        resolve(IMAGE, **options)


def test_an_initializer_that_is_listed_as_an_input_is_none():
    proto = model(x=(1, 3), w=("odd", "dims"))
    proto.graph.initializer.add(name="w", data_type=1, dims=[1, 1], float_data=[0.0])
    assert resolve(proto) == ()


def test_an_input_without_a_shape_is_an_error():
    proto = model(x=(1, 3))
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="'x' declares no shape"):
        resolve(proto)
