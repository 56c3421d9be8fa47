"""Options that depend on each other: an option may have no effect, or too much to ask for."""

import pytest

from qdqtool.errors import UsageError
from qdqtool.jobs.migration.lines import parse_line
from qdqtool.jobs.migration.request import Request
from qdqtool.jobs.migration.translation import rows

ONNX = "trtexec --onnx=m.onnx --saveEngine=e"


def fates(line: str, *, has_pairs: bool = False) -> dict[str, tuple[str, str, bool]]:
    """The fate, counterpart and loss of each option."""
    parsed = parse_line(line)
    found = rows(parsed, Request(parsed, lambda _: has_pairs))
    names = (each.name for each in parsed.options)
    return {name: (row.fate, row.ours, row.changes_result) for name, row in zip(names, found, strict=True)}


NOTHING = ("default", "", False)
LOST = ("none", "", True)


def test_types_of_the_file_decide_in_strongly_typed_networks() -> None:
    found = fates(f"{ONNX} --int8 --fp16 --calib=c --stronglyTyped")
    assert [found[name] for name in ("--int8", "--fp16", "--calib")] == [NOTHING] * 3


def test_a_model_with_pairs_is_not_quantized_again() -> None:
    line = f"{ONNX} --int8 --fp16 --calib=c"
    found = fates(line, has_pairs=True)
    assert [found[name] for name in ("--int8", "--calib")] == [NOTHING] * 2
    assert found["--fp16"] == ("other", "cast --to", False)
    assert fates(line)["--int8"] == ("other", "quantize --quantize-mode", False)


def test_a_cache_without_int8_does_nothing() -> None:
    assert fates(f"{ONNX} --calib=c")["--calib"] == NOTHING
    assert fates(f"{ONNX} --calib=c --int8")["--calib"] == ("other", "quantize --calibration-cache", False)


def test_layers_count_only_with_constraints_and_types_to_choose_from() -> None:
    layers = "--layerPrecisions=a:fp32"
    assert fates(f"{ONNX} --fp16 {layers}")["--layerPrecisions"] == NOTHING
    assert fates(f"{ONNX} --fp16 --precisionConstraints=none {layers}")["--layerPrecisions"] == NOTHING
    assert fates(f"{ONNX} --precisionConstraints=obey {layers}")["--layerPrecisions"] == NOTHING
    found = fates(f"{ONNX} --fp16 --precisionConstraints=prefer {layers}")
    assert found["--layerPrecisions"] == ("other", "cast --nodes-to-exclude", False)


@pytest.mark.parametrize(
    ("formats", "inputs", "outputs"),
    [
        ("fp32:chw fp32:chw", NOTHING, NOTHING),
        ("fp16:chw fp16:chw", ("other", "cast --io-types", False), ("other", "cast --io-types", False)),
        ("fp16:chw fp32:chw", LOST, LOST),
        ("int8:chw,int32:chw int8:chw", ("other", "cast --io-types", False), ("other", "cast --io-types", False)),
        ("fp16:hwc8 fp16:chw", LOST, ("other", "cast --io-types", False)),
    ],
)
def test_inputs_and_outputs_have_one_type_and_linear_tensors(
    formats: str, inputs: tuple[str, str, bool], outputs: tuple[str, str, bool]
) -> None:
    first, second = formats.split()
    found = fates(f"{ONNX} --inputIOFormats={first} --outputIOFormats={second}")
    assert (found["--inputIOFormats"], found["--outputIOFormats"]) == (inputs, outputs)


def test_an_engine_that_exists_keeps_its_types() -> None:
    found = fates("trtexec --loadEngine=e --int8 --optShapes=anything --iterations=3")
    assert found["--int8"] == found["--optShapes"] == NOTHING
    assert found["--iterations"] == ("other", "bench --runs", False)


def test_other_shapes_and_files_of_an_engine_that_exists_are_lost() -> None:
    found = fates("trtexec --loadEngine=e --shapes=x:1 --exportLayerInfo=f")
    assert found["--shapes"] == found["--exportLayerInfo"] == LOST


def test_shapes_for_times_count_only_alone() -> None:
    assert fates(f"{ONNX} --shapes=x:1")["--shapes"] == ("other", "build --opt-shapes", False)
    found = fates(f"{ONNX} --shapes=x:1 --optShapes=x:2")
    assert found["--shapes"] == NOTHING
    assert found["--optShapes"] == ("same", "build --opt-shapes", False)


def test_one_type_and_one_timing_cache() -> None:
    assert fates(f"{ONNX} --fp16 --bf16")["--bf16"] == LOST
    caches = "polygraphy convert m -o e --load-timing-cache a --save-timing-cache"
    assert fates(f"{caches} b")["--save-timing-cache"] == LOST
    assert fates(f"{caches} a")["--save-timing-cache"] == ("other", "build --timing-cache-file", False)


def test_values_that_are_defaults_lose_nothing() -> None:
    for option in ("--sparsity=disable", "--hardwareCompatibilityLevel=ampere+", "--hardwareCompatibilityLevel=none"):
        assert fates(f"{ONNX} {option}")[option.partition("=")[0]] == NOTHING
    assert fates(f"{ONNX} --sparsity=force")["--sparsity"] == LOST
    assert fates(f"{ONNX} --hardwareCompatibilityLevel=sameComputeCapability")["--hardwareCompatibilityLevel"] == LOST


def test_pools_of_dla_are_lost_and_the_others_stay() -> None:
    parsed = parse_line(f"{ONNX} --memPoolSize=workspace:1024,dlaSRAM:1")
    request = Request(parsed, lambda _: False)
    assert request.words["build"] == ["--mem-pool-size", "workspace:1024"]
    assert next(row for row in rows(parsed, request) if "Pool" in row.given).changes_result


def test_regular_expressions_become_globs_or_are_lost() -> None:
    line = "python -m modelopt.onnx.quantization --onnx_path m --nodes_to_exclude"
    assert Request(parse_line(f"{line} /a.* '^/b\\.c$'"), lambda _: False).words["quantize"] == [
        *("--nodes-to-exclude", "/a*"),
        *("--nodes-to-exclude", "/b.c"),
    ]
    assert fates(f"{line} '/a(b|c)'")["--nodes_to_exclude"] == LOST


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trtexec --fp16", "the line names no model"),
        ("trtexec --deploy=net.prototxt --output=prob", "--deploy=net.prototxt is no ONNX model: TensorRT 10 has no"),
        ("trtexec --uff=net.uff", "--uff=net.uff is no ONNX model"),
        ("polygraphy convert m.pb --model-type frozen -o e", "--model-type frozen is no ONNX model"),
        ("trtexec --onnx=m --optShapes=1x3", "--optShapes '1x3' cannot be read"),
        ("trtexec --onnx=m --memPoolSize=workspace", "cannot be read"),
        ("trtexec --onnx=m --memPoolSize=worksapce:1G", "'worksapce', which is not a memory pool; did you mean"),
        ("trtexec --onnx=m --optShapes=x:$S", "--optShapes has 'x:$S', which a shell expands"),
        ("trtexec --onnx=m --fp16 --layerPrecisions=a", "--layerPrecisions has 'a' without a type"),
    ],
)
def test_a_line_that_cannot_be_translated(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Request(parse_line(line), lambda _: False)
    assert message in caught.value.message
    assert caught.value.hint
