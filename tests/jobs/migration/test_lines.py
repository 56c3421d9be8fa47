"""The table of options against the parsers of the tools, and lines as shells and users write them."""

import tomllib
from pathlib import Path

import pytest

from qdqtool.errors import UsageError
from qdqtool.jobs.migration.lines import LONGEST_LINE, options_of, parse_line
from qdqtool.jobs.migration.translation import counterpart

SOURCES = tomllib.loads(Path(__file__).with_name("tool_options.toml").read_text(encoding="utf-8"))


def given(line: str) -> dict[str, str]:
    return {each.name: each.value for each in parse_line(line).options}


def test_the_table_has_every_option_of_trtexec() -> None:
    """Each release and tensorrt_rtx is a list of its own; ``-h`` is the only short option."""
    names = [
        name
        for tool, lists in SOURCES.items()
        if tool.startswith(("trtexec", "tensorrt"))
        for text in lists.values()
        for name in text.split()
    ]
    assert len(names) == len(set(names))
    known = [name for option in options_of("trtexec") for name in option.names]
    assert sorted(known) == sorted(["-h", *(f"--{name}" for name in names)])


@pytest.mark.parametrize("tool", ["polygraphy", "modelopt"])
def test_the_table_has_every_option_of_the_tools_in_python(tool: str) -> None:
    lists = {key: text.split() for key, text in SOURCES[tool].items()}
    options = options_of(tool)
    assert sorted(sorted(option.names) for option in options) == sorted(sorted(x.split("|")) for x in lists["names"])
    assert {option.names[0] for option in options if not option.arity} == set(lists["flags"])
    assert {option.names[0] for option in options if option.arity == "=+"} == set(lists["several"])


@pytest.mark.parametrize("tool", ["trtexec", "polygraphy", "modelopt"])
def test_every_option_has_one_fate_and_a_reason(tool: str) -> None:
    for option in options_of(tool):
        fates = [field for field in ("to", "idle", "none", "lost") if getattr(option, field)]
        assert len(fates) == 1, option.names
        assert option.reason or counterpart(option), option.names
        assert option.gone in {"", "10", "11"}


def test_options_of_a_release_that_lacks_them_are_marked_as_removed() -> None:
    gone = {name for key in ("trtexec 10", "trtexec 8") for text in SOURCES[key].values() for name in text.split()}
    for option in options_of("trtexec"):
        is_gone = bool({name.removeprefix("--") for name in option.names} & gone)
        assert is_gone == bool(option.gone), option.names


def test_values_are_read_in_both_ways() -> None:
    assert given("trtexec --onnx=a=b.onnx --int8") == {"--onnx": "a=b.onnx", "--int8": ""}
    assert given("trtexec --onnx a.onnx --fp16") == {"--onnx": "a.onnx", "--fp16": ""}
    assert given("trtexec --onnx=m --useSpinWait=true --fp16=false") == {"--onnx": "m", "--useSpinWait": ""}
    line = "polygraphy convert a.onnx --trt-min-shapes x:[1,2] y:[3] --load-ext=folder -o b"
    assert given(line) == {
        "model_file": "a.onnx",
        "--trt-min-shapes": "x:[1,2] y:[3]",
        "--load-ext": "folder",
        "-o": "b",
    }


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("trtexec --onnx='a b.onnx'", "a b.onnx"),
        ('trtexec --onnx="it\'s.onnx"', "it's.onnx"),
        ("trtexec --onnx='a\nb.onnx'", "a\nb.onnx"),
        (r"trtexec --onnx=a\ b.onnx", "a b.onnx"),
        ("trtexec \\\n  --onnx=a.onnx", "a.onnx"),
        ("trtexec `\r\n  --onnx=a.onnx", "a.onnx"),
        (r"C:\TensorRT\trtexec --onnx=C:\models\a.onnx", r"C:\models\a.onnx"),
        (r"./TRTEXEC.EXE --onnx=a.onnx", "a.onnx"),
        ("trtexec --onnx=a#b.onnx", "a#b.onnx"),
    ],
)
def test_words_are_divided_as_shells_do(line: str, model: str) -> None:
    assert given(line) == {"--onnx": model}


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("CUDA_VISIBLE_DEVICES=0 trtexec --onnx=a", "left out in front of trtexec: CUDA_VISIBLE_DEVICES=0"),
        ("trtexec --onnx=a | tee log", "left out, since it is for a shell: '|' tee log"),
        ("trtexec --onnx=a # float", "left out, since it is for a shell: '#' float"),
        ("trtexec --onnx=a 2>&1", "left out, since it is for a shell: '2>&1'"),
        ("trtexec --onnx=a && rm b", "left out, since it is for a shell: '&&' rm b"),
        ("trtexec --onnx=$A/m.onnx", "not expanded, since no shell reads the line: '--onnx=$A/m.onnx'"),
        ("trtexec --onnx=$(ls a b)", "not expanded, since no shell reads the line: '--onnx=$(ls a b)'"),
        ("trtexec --onnx=`cat a b`", "not expanded, since no shell reads the line: '--onnx=`cat a b`'"),
        ("trtexec --onnx=~/m.onnx", "not expanded, since no shell reads the line: '--onnx=~/m.onnx'"),
        ("python3 -m modelopt.onnx.quantization --onnx_path a", None),
        ("trtexec --onnx=a --layerPrecisions=*:fp16", None),
    ],
)
def test_what_a_shell_would_do_is_told_and_not_done(line: str, note: str | None) -> None:
    assert parse_line(line).notes == ((note,) if note else ())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "calls none of"),
        ("trt --onnx=a", "calls none of trtexec, tensorrt_rtx, polygraphy, modelopt.onnx.quantization"),
        ("--onnx=/bin/trtexec", "calls none of"),
        ("polygraphy run a.onnx", "only 'polygraphy convert' is translated, not 'run'"),
        ("polygraphy", "only 'polygraphy convert' is translated, not ''"),
        ("trtexec --onx=a", "no option '--onx'; did you mean '--onnx'"),
        ("trtexec a.onnx", "trtexec has no option 'a.onnx'"),
        ("trtexec --onnx", "--onnx has no value"),
        ("trtexec --onnx=a && trtexec --onnx=b", "the line calls a program twice"),
        ("trtexec --onnx= --fp16", "--onnx has no value"),
        ("trtexec --onnx=a --onnx=b", "--onnx is given twice"),
        ("polygraphy convert a b -o c", "model_file is given twice"),
        ("polygraphy convert a --trt c", "no option '--trt'"),
        ("trtexec --onnx='a", "cannot be divided into words: no closing quotation"),
        ("trtexec --onnx=a\\", "cannot be divided into words: no escaped character"),
        ("trtexec " + "a" * LONGEST_LINE, "characters; at most 100,000 are read"),
    ],
)
def test_a_wrong_line_gives_one_line(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
