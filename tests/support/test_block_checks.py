"""The checks of code blocks: what is wrong is found, and what is right passes."""

import pytest

from support.block_checks import CHECKS, faults
from support.code_blocks import Block

GOOD = {
    "sh": "qdqtool quantize m.onnx --calib-data d.npz -o q.onnx\nmake peers ARGS=--quick\npip install '.[gpu]'",
    "console": "$ qdqtool --version\nany output",
    "python": "x = 1",
    "text": "anything",
    "onnx": "agraph (float[1,2] x) => (float[1,2] y) { y = Relu (x) }",
    "toml plan-file": 'schema_version = 1\n[[tensors]]\ntensor = "x"\nformat = "int8"\nscale = 0.1',
    "toml settings-file": 'targets = ["tensorrt"]',
    "toml recipe": 'quantize-mode = "int8"',
    "yaml pre-commit": "repos: [{hooks: [{id: qdqtool-validate, args: [--target, onnx]}]}]",
    "yaml workflow": "- {uses: tools/qdqtool@v1, with: {models: m.onnx}}",
    "json curve-file": '{"schema_version": 1, "points": []}',
}
BAD = {
    "no tag": ("", "x", "tag '' is not known"),
    "an unknown tag": ("bash", "x", "tag 'bash' is not known"),
    "json of no format": ("json", "{}", "tag 'json' is not known"),
    "a command that does not exist": ("sh", "qdqtool quantise m.onnx", "No such command 'quantise'"),
    "an option that does not exist": ("sh", "qdqtool check m.onnx --dta d.npz", "No such option"),
    "an option of another command": ("sh", "qdqtool strip m.onnx -o o.onnx --calib-data d.npz", "No such option"),
    "a value that does not exist": ("sh", "qdqtool check m.onnx --profile exact", "'exact' is not one of"),
    "a missing option": ("sh", "qdqtool strip m.onnx", "Missing option"),
    "a missing argument": ("sh", "qdqtool quantize", "Missing argument"),
    "an argument too many": ("sh", "qdqtool check m.onnx n.onnx", "unexpected extra argument"),
    "text in place of a number": ("sh", "qdqtool check m.onnx --samples many", "not a valid integer"),
    "a fault in the second command": ("console", "$ qdqtool rules\nprinted\n$ qdqtool ruels", "command 'ruels'"),
    "a session without a command": ("console", "qdqtool rules", "no command"),
    "a session that begins with output": ("console", "printed\n$ qdqtool rules", "first line is no command"),
    "an unknown program": ("sh", "trtexec --onnx=m.onnx", "program 'trtexec'"),
    "a target that does not exist": ("sh", "make everything", "no target everything"),
    "a variable that does not exist": ("sh", "make peers OPTIONS=--quick", "no variable OPTIONS"),
    "a script that does not exist": ("sh", "python benchmarks/speed.py", "no benchmarks/speed.py"),
    "an option that a script lacks": ("sh", "python benchmarks/peers.py --fast", "no option --fast"),
    "a module that does not exist": ("sh", "python -m sample_models.nothing", "no module sample_models.nothing"),
    "an extra that does not exist": ("sh", "pip install '.[cuda]'", "no extra cuda"),
    "a shell without completion": ("sh", "_QDQTOOL_COMPLETE=csh_source qdqtool", "no shell completes"),
    "another mkdir": ("sh", "mkdir out", "no `mkdir -p` of one folder"),
    "another kind of key": ("sh", "ssh-keygen -t rsa -f key", "another kind of key"),
    "broken Python": ("python", "x = = 1", "SyntaxError"),
    "no output": ("text", "\n", "empty"),
    "a broken graph": ("onnx", "agraph (float[1,2] x) => { }", "ParseError"),
    "an unknown key of a plan": ("toml plan-file", f"{GOOD['toml plan-file']}\naxes = 0", "unknown key 'axes'"),
    "an unknown setting": ("toml settings-file", 'target = ["tensorrt"]', "unknown setting 'target'"),
    "an unknown option of a recipe": ("toml recipe", 'mode = "int8"', "'mode' is not an option"),
    "a wrong value in a recipe": ("toml recipe", 'samples = "all"', 'samples is "all"; expected an integer'),
    "an unknown hook": ("yaml pre-commit", "repos: [{hooks: [{id: qdqtool-build}]}]", "no hook qdqtool-build"),
    "a wrong option of a hook": (
        "yaml pre-commit", "repos: [{hooks: [{id: qdqtool-validate, args: [--targets, onnx]}]}]", "No such option",
    ),
    "an unknown input of the action": (
        "yaml workflow", "- {uses: tools/qdqtool@v1, with: {models: m.onnx, target: onnx}}", "no input target",
    ),
    "an action without its input": ("yaml workflow", "- {uses: tools/qdqtool@v1}", "requires models"),
    "a workflow of others": ("yaml workflow", "- {uses: actions/checkout@v4}", "no step uses the action"),
    "an undeclared key": ("json curve-file", '{"schema_version": 1, "points": [], "more": 1}', "'more' was unexpected"),
    "a missing key": ("json curve-file", '{"schema_version": 1}', "'points' is a required property"),
}  # fmt: skip


@pytest.mark.parametrize("tag", GOOD)
def test_what_is_right_passes(tag: str):
    assert faults(Block("page.md", 1, tag, GOOD[tag])) == []


def test_every_tag_is_tried():
    assert set(CHECKS) <= set(GOOD)


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found(name: str):
    tag, text, said = BAD[name]
    found = faults(Block("page.md", 1, tag, text))
    assert len(found) == 1
    assert said in found[0]
