"""What contestants of benchmarks/peers.py get: data of real models, models that peers can take, nodes of a peer."""

import ast
import importlib
import io
import json
import sys
import zipfile
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from support.comparison import saved

from benchmarks.comparison import contestants, coverage, file_contents, real_models, speech, subjects
from benchmarks.comparison.arena import Arena, Effort
from benchmarks.comparison.contestants import DEFAULT, FP8, HALF, ORT, OURS
from benchmarks.comparison.quality import Referee
from benchmarks.comparison.subjects import Subject, Workshop

RENAMING = """
import subprocess, sys, onnx
subprocess.run(sys.argv[1:], check=True)
model = onnx.load(sys.argv[6])
for node in model.graph.node:
    node.name = ""
    node.input[:], node.output[:] = ([f"new {name}" if name in {"logits", "stem.conv.out"} else name for name in names]
                                     for names in (node.input, node.output))
model.graph.output[0].name = "new logits"
onnx.save(model, sys.argv[6])
"""
ONLY_TWO = ("--nodes-to-quantize", "block1.conv1", "--nodes-to-quantize", "block1.conv2")


class TestRealData:
    def test_what_a_classifier_sees_of_a_file_is_its_two_ends(self):
        seen = file_contents.ends(b"  ab" + bytes(2000) + b"yz \n")
        assert (len(seen), seen[:3], seen[-3:]) == (1024, [97, 98, 0], [0, 121, 122])
        short = file_contents.ends(b"abc")
        assert (short[:4], short[-4:]) == ([97, 98, 99, 256], [256, 97, 98, 99])

    def test_files_are_of_the_kinds_that_they_claim(self):
        made = file_contents.contents(42, seed=1)
        assert made == file_contents.contents(42, seed=1)
        assert len(set(made)) == 42
        json.loads(made[1])
        ast.parse(made[5])
        assert zipfile.ZipFile(io.BytesIO(made[12])).testzip() is None
        assert np.load(io.BytesIO(made[16])).shape[0] == 20

    def test_speech_has_voice_and_pauses(self):
        sound = speech.sound(20, seed=1)
        assert sound.shape == (20 * speech.RATE,)
        assert np.abs(sound).max() <= 1
        loudness = np.sqrt(np.square(sound.reshape(-1, 512)).mean(axis=1))
        floor = 0.002  # of its noise
        assert (loudness > 10 * floor).mean() > 0.3
        assert (loudness < 2 * floor).mean() > 0.1
        np.testing.assert_array_equal(sound, speech.sound(20, seed=1))

    @pytest.mark.real
    def test_every_real_model_runs_on_its_data(self, real_model, tmp_path):
        known = real_models.known(real_model)
        subject = Subject("real", real_model, tmp_path / "c", tmp_path / "t.npz", 2, metric=known.metric)
        np.savez(subject.test, **known.inputs(real_model, 2, 1))
        spread = [np.ptp(values) for values in Referee(subject)._expected.values()]
        assert min(spread) > 0


class TestPeerInputs:
    """The copies of a model that peers get instead of it."""

    @pytest.fixture
    def prepare(self, monkeypatch):
        monkeypatch.syspath_prepend(contestants.CHILDREN)
        return importlib.import_module("peer_input").prepared

    def test_a_model_that_is_good_as_it_is_stays(self, prepare, tmp_path):
        path = str(saved(tmp_path, ["x", "weight"]))
        assert prepare(path, str(tmp_path), "", (13, 17)) == path

    def test_an_old_opset_is_converted_and_computes_the_same(self, prepare, tmp_path):
        path = tmp_path / "old.onnx"
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=1)], "g", ends[:1], ends[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4), path)
        changed = prepare(str(path), str(tmp_path), "x:2x4", (13, 17))
        model = onnx.load(changed)
        assert model.opset_import[0].version == 17
        assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [2, 4]
        feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
        before, after = (onnxruntime.InferenceSession(one).run(None, feeds)[0] for one in (path, changed))
        np.testing.assert_array_equal(before, after)


class TestFollowing:
    def test_nodes_of_a_model_are_those_with_all_factors_dequantized(self, tmp_path):
        assert coverage.quantized(saved(tmp_path, ["x_dq", "w_dq"])) == {"y"}
        assert coverage.quantized(saved(tmp_path, ["x_dq", "weight"])) == set()

    def test_nodes_without_a_name_go_by_their_output(self, tmp_path):
        path = saved(tmp_path, ["x_dq", "w_dq"])
        assert coverage.names(path) == {"y": "product"}
        model = onnx.load(path)
        model.graph.node[-1].name = ""
        onnx.save(model, path)
        assert coverage.names(path) == {"y": "y"}

    def test_ours_follows_each_peer_once_in_each_mode(self):
        made = contestants.followers([*contestants.onnx_runtime(), *contestants.model_optimizer("python")])
        assert sorted(one.follows for one in made) == [
            "Model Optimizer fp8, max",
            "Model Optimizer int8 max, max",
            "ORT fp8, distribution",
            "ORT int8 max, max",
        ]
        assert {one.group for one in made} == {DEFAULT, FP8}

    @pytest.mark.slow(reason="runs peers")
    def test_it_quantizes_the_nodes_of_the_peer_and_no_others(self, tmp_path):
        subject = replace(subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True)), samples=4)
        peer = replace(contestants.ours()[1], tool=ORT)
        narrow = replace(peer, command=lambda *task: [*contestants.ours()[1].command(*task), *ONLY_TWO])
        entered = [contestants.ours()[0], narrow, *contestants.followers([peer])]
        results = Arena(subject, Effort(1, engines=False), tmp_path).compare(entered)
        assert [(one.tool, one.coverage.full) for one in results] == [("float", 0), (OURS, 8), (ORT, 2), (OURS, 2)]

    @pytest.mark.slow(reason="runs peers")
    def test_of_a_peer_that_quantizes_all_nodes_names_do_not_matter(self, tmp_path):
        subject = replace(subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True)), samples=4)
        peer = contestants.onnx_runtime()[0]
        renamed = replace(peer, command=lambda *task: [sys.executable, "-c", RENAMING, *peer.command(*task)])
        entered = [contestants.ours()[0], renamed, *contestants.followers([peer])]
        results = Arena(subject, Effort(1, engines=False), tmp_path).compare(entered)
        assert [(one.tool, one.coverage.full) for one in results] == [("float", 0), (OURS, 8), (ORT, 9), (OURS, 9)]

    @pytest.mark.slow(reason="quantizes a sample model twice")
    def test_a_peer_with_the_nodes_of_ours_is_not_followed(self, tmp_path):
        subject = replace(subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True)), samples=4)
        peer = replace(contestants.ours()[1], tool=ORT)
        arena = Arena(subject, Effort(1, times=False, judges=False), tmp_path)
        results = arena.compare([contestants.ours()[0], peer, *contestants.followers([peer])])
        assert [one.tool for one in results] == ["float", OURS, ORT]
        assert [one.cost for one in results] == [None] * 3


def test_a_cast_without_data_is_told_the_shapes_of_the_data(tmp_path):
    subject = subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True))
    commands = [one.command(subject, 4, tmp_path) for one in contestants.ours() if one.group == HALF]
    shapes = [words[words.index("--input-shapes") + 1] for words in commands if "--input-shapes" in words]
    assert shapes == ["image:1x1x8x8"]


def test_a_contestant_that_takes_too_long_has_failed(tmp_path):
    subject = subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True))
    endless = replace(contestants.onnx_runtime()[0], command=lambda *_: ["sleep", "60"])
    _, failed = Arena(subject, Effort(1, times=False, engines=False, limit=0.1), tmp_path).compare([endless])
    assert failed.failed == "error: not done after 0 s"
    assert failed.quality is None
