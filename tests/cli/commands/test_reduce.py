"""``qdqtool reduce`` as users run it: options behind ``--``, reports, exit codes, wrong inputs."""

import json
import shlex
import sys
from pathlib import Path

import onnx
import pytest
from support.command import qdqtool
from support.paths import ROOT
from support.planted import operators, random_network

FAILS = shlex.join([sys.executable, "-P", str(ROOT / "tests" / "support" / "fail_on.py"), "exit", "Elu"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    onnx.save(random_network(0, 6, {3: "Elu"}), tmp_path / "model.onnx")
    return tmp_path


@pytest.mark.slow(reason="a process for each step")
def test_json_has_every_key_and_the_words_behind_the_dashes_belong_to_the_command(folder: Path):
    words = ("reduce", "model.onnx", "--fails", FAILS, "-o", "small.onnx", "--output-format", "json", "--", "{}")
    done = qdqtool(*words, cwd=folder)
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["schema_version"] == 1
    assert report["command"] == f"{FAILS} small.onnx"
    assert report["after"] == {"kind": "exit code", "detail": "1", "message": "error: one of 1 nodes is not supported"}
    assert report["sizes_before"]["nodes"] == 6
    assert report["sizes_after"] == {"nodes": 1, "bytes": (folder / "small.onnx").stat().st_size}
    assert report["operators"] == {"Elu": 1}
    assert report["history"][-1] == [report["runs"], 1]
    assert operators(onnx.load(folder / "small.onnx")) == ["Elu"]
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx", "small.md", "small.onnx"]


def test_model_stands_for_the_path_and_the_report_goes_where_it_is_asked_for(folder: Path):
    words = ("reduce", "model.onnx", "--fails", f"{FAILS} MODEL", "-o", "small.onnx", "--report", "bug.md")
    done = qdqtool(*words, cwd=folder)
    assert done.code == 0, done.err
    assert done.out.startswith("1 node of 6 left of model.onnx")
    assert "report in bug.md" in done.out
    assert not (folder / "small.md").exists()


def test_runs_that_are_used_up_end_the_search_and_say_so(folder: Path):
    done = qdqtool("reduce", "model.onnx", "--fails", f"{FAILS} {{}}", "-o", "s.onnx", "--max-runs", "4", cwd=folder)
    assert done.code == 0, done.err
    assert "in 4 runs" in done.out
    assert "the search ended early" in done.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("model.onnx", "-o", "s.onnx"), 2, "Missing option '--fails'"),
        (("absent.onnx", "--fails", "build", "-o", "s.onnx"), 3, "absent.onnx: no such file"),
        (("model.onnx", "--fails", "true {}", "-o", "s.onnx"), 2, "does not fail on model.onnx: `true model.onnx`"),
        (
            ("model.onnx", "--fails", "false {}", "-o", "s.onnx"),
            2,
            "fails in the same way on a model that only copies its inputs",
        ),
        (("model.onnx", "--fails", "nowhere {}", "-o", "s.onnx"), 4, "the command 'nowhere' cannot be started"),
        (("model.onnx", "--fails", "python x.py", "-o", "s.onnx"), 2, "`--fails 'python x.py {}'`"),
        (
            ("model.onnx", "--fails", "check --min-sqrn 3", "-o", "s.onnx"),
            2,
            "`qdqtool check` does not run: No such option",
        ),
        (("model.onnx", "--fails", "true {}", "-o", "model.onnx"), 2, "output model.onnx is also an input"),
        (("model.onnx", "--fails", "true {}", "-o", "s.onnx", "--timeout", "0"), 2, "0.0 is not in the range x>0"),
        (("model.onnx", "--fails", "true {}", "-o", "s.onnx", "--input-shapes", "y:1"), 2, "y"),
    ],
)
def test_wrong_inputs_get_a_clear_message(words: tuple[str, ...], code: int, said: str, folder: Path):
    done = qdqtool("reduce", *words, cwd=folder)
    assert done.code == code
    assert said in done.err
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx"]


@pytest.mark.slow(reason="a process for each step")
def test_a_hostile_message_reaches_neither_the_terminal_nor_the_report(folder: Path):
    script = folder / "evil.py"
    script.write_text(
        "import sys, onnx\n"
        "if any(n.op_type == 'Elu' for n in onnx.load(sys.argv[1]).graph.node):\n"
        "    sys.exit('\\x1b[31m~~~~ [/bold] red')\n"
    )
    done = qdqtool("reduce", "model.onnx", "--fails", f"{sys.executable} {script} {{}}", "-o", "s.onnx", cwd=folder)
    assert done.code == 0, done.err
    text = (folder / "s.md").read_text()
    assert "\x1b" not in done.out + done.err + text
    assert "[/bold] red" in done.out
    assert text.count("~~~~") % 2 == 0
    assert "\n~~~~ [" not in text
