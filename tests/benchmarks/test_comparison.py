"""The parts of benchmarks/peers.py that figures depend on, each against something that is known."""

import math
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support.comparison import result, saved

from benchmarks.comparison import (
    bars,
    bert_base,
    contestants,
    costs,
    coverage,
    data,
    quality,
    resnet50,
    subjects,
    tables,
)
from benchmarks.comparison.contestants import DEFAULT, FP8, HISTOGRAM, INT4_32, MAX, MODEL_OPTIMIZER, ORT, OURS
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Coverage, Half
from benchmarks.comparison.measured import Result
from benchmarks.comparison.quality import Referee
from benchmarks.comparison.subjects import Subject, Workshop

MEGABYTE = 1 << 20


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


class TestCosts:
    def test_time_and_memory_are_those_of_the_command(self):
        kept = bytearray(300 * MEGABYTE)  # what this process holds must not count
        ended = costs.run(python(f"import time; b = bytearray({100 * MEGABYTE}); time.sleep(0.3)"))
        assert ended.code == 0
        assert ended.cost.wall >= 0.3
        assert ended.cost.cpu < ended.cost.wall
        assert 100 * MEGABYTE < ended.cost.peak < 200 * MEGABYTE
        assert len(kept) == 300 * MEGABYTE

    def test_processor_time_counts_work_and_no_waiting(self):
        ended = costs.run(python("import time\nwhile time.process_time() < 0.3: pass"))
        assert ended.cost.cpu >= 0.3

    def test_a_failure_has_its_code_and_the_line_that_names_it(self):
        ended = costs.run(python("print('before'); raise ValueError('no such thing')"))
        assert (ended.code, ended.complaint) == (1, "ValueError: no such thing")

    def test_a_command_that_does_not_exist_is_a_failure(self):
        assert costs.run(["/no/such/program"]).code != 0

    def test_what_takes_too_long_is_ended_with_all_that_it_started(self, tmp_path):
        mark = tmp_path / "mark"
        late = f"import time; time.sleep(1); open({str(mark)!r}, 'w')"
        ended = costs.run(
            python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {late!r}])"), limit=0.4
        )
        assert (ended.code, ended.complaint) == (costs.TOO_LONG, "error: not done after 0 s")
        time.sleep(1.2)
        assert not mark.exists()

    def test_the_smallest_of_each_figure_counts(self):
        assert Cost(2, 5, 30).best(Cost(3, 4, 20)) == Cost(2, 4, 20, runs=2)


class TestQuality:
    def test_sqnr_is_the_ratio_of_energies_in_decibel(self):
        expected = np.array([3.0, 4.0], np.float32)
        assert quality.sqnr(expected, expected + np.float32(0.5)) == pytest.approx(10 * math.log10(25 / 0.5))
        assert quality.sqnr(expected, expected) == math.inf
        assert quality.sqnr(expected, np.array([np.nan, 4])) == -math.inf

    def test_the_standard_error_is_the_spread_of_the_sqnr_without_one_row(self):
        expected = np.array([[3.0], [4.0], [1.0]])
        got = expected + np.array([[0.5], [0.25], [1.0]])
        without = [10 * math.log10(17 / 1.0625), 10 * math.log10(10 / 1.25), 10 * math.log10(25 / 0.3125)]
        spread = math.sqrt(2 * np.var(without))
        assert quality.standard_error_db(expected, got) == pytest.approx(spread)
        assert quality.standard_error_db(expected[:1], got[:1]) is None
        assert quality.standard_error_db(np.float32(2), np.float32(1)) is None

    def test_perplexity_of_a_uniform_guess_is_the_number_of_classes(self):
        assert quality.perplexity(np.zeros((2, 3, 7)), np.zeros((2, 3), np.int64)) == pytest.approx(7)

    def test_perplexity_is_one_over_the_probability_given_to_the_label(self):
        scores = np.log(np.array([[0.25, 0.75]]))
        assert quality.perplexity(scores, np.array([0])) == pytest.approx(4)

    def test_accuracy_is_percent(self):
        assert quality.accuracy(np.array([[1, 2], [2, 1], [0, 1], [5, 4]]), np.array([1, 0, 0, 0])) == 75

    def test_a_model_is_exact_against_itself(self, tmp_path):
        referee = Referee(subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True)))
        judged = referee.judge(referee.subject.path)
        assert judged.worst == math.inf
        assert judged.task == referee.reference().task == pytest.approx(100 * 539 / 540)

    def test_every_float16_node_rounds_its_results(self, tmp_path):
        # ONNX Runtime adds and subtracts in float32, and 0.25 comes back; between both, float16 rounds 2048.25 to 2048.
        half = """<float16[1] b = {26624}> {
            h = Cast <to = 10> (x) a = Add (h, b) s = Sub (a, b) y = Cast <to = 1> (s) }"""
        flat, half = (f"g (float[1] x) => (float[1] y) {nodes}" for nodes in ("{ y = Identity (x) }", half))
        np.savez(tmp_path / "test.npz", x=np.float32([[0.25]]))
        subject = Subject("flat", text_model(tmp_path, "flat", flat), tmp_path, tmp_path / "test.npz", 1)
        assert Referee(subject).judge(text_model(tmp_path, "half", half)).worst == pytest.approx(0)


def text_model(folder: Path, name: str, graph: str) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}'), path)
    return path


class TestCoverage:
    def test_half_precision_is_counted_by_nodes_and_work(self, tmp_path):
        graph = """g (float[2,4] x, float16[4,3] w, float[3,5] v, int64[2] i) => (float[2,5] y, float[2] n) {
            h = Cast <to = 10> (x) a = MatMul (h, w) b = Cast <to = 1> (a) y = MatMul (b, v) n = Cast <to = 1> (i) }"""
        path = text_model(tmp_path, "half", graph)
        assert coverage.half_of(path) == Half(nodes=2, half=1, work=pytest.approx(100 * 24 / 54), casts=2)

    def test_nodes_count_by_where_their_factors_come_from(self, tmp_path):
        assert coverage.count(saved(tmp_path, ["x", "weight"])) == Coverage(1, 0, 0, 1)
        assert coverage.count(saved(tmp_path, ["x_dq", "weight"])) == Coverage(1, 0, 1, 1)
        assert coverage.count(saved(tmp_path, ["x_dq", "w_dq"])) == Coverage(1, 1, 0, 1)

    def test_a_dequantized_factor_may_be_transposed_on_its_way(self, tmp_path):
        assert coverage.count(saved(tmp_path, ["x_dq", "w_moved"])) == Coverage(1, 1, 0, 1)


class TestModels:
    @pytest.mark.slow(reason="runs a ResNet of 50 layers")
    def test_activations_of_the_resnet_are_of_order_one_at_every_depth(self, tmp_path):
        images = data.images(4, (3, 64, 64), seed=1)
        model = resnet50.write(tmp_path / "model.onnx", images, seed=3)
        convs = [node for node in model.graph.node if node.op_type == "Conv"]
        assert (len(convs), sum(node.op_type == "Gemm" for node in model.graph.node)) == (53, 1)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=node.output[0]) for node in convs)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        spreads = [float(values.std()) for values in session.run(None, {"image": images})]
        assert min(spreads) > 0.3
        assert max(spreads) < 3

    def test_the_same_seed_gives_the_same_bytes(self, tmp_path):
        size = bert_base.Size(layers=1, width=16, heads=2, vocabulary=50, positions=8)
        first, second = (bert_base.Encoder(size, seed=1).write(tmp_path / name, 8) for name in ("a", "b"))
        assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)

    def test_masked_tokens_do_not_change_the_others(self, tmp_path):
        size = bert_base.Size(layers=2, width=16, heads=2, vocabulary=50, positions=8)
        model = bert_base.Encoder(size, seed=1).write(tmp_path / "m", 8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        mask = np.array([[1, 1, 1, 1, 1, 0, 0, 0]], np.int64)
        ids = np.arange(8, dtype=np.int64)[None]
        (one,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
        (other,) = session.run(None, {"input_ids": np.where(mask, ids, 40), "attention_mask": mask})
        np.testing.assert_array_equal(one[:, :5], other[:, :5])


class TestCommands:
    def test_every_method_of_the_tool_takes_part(self):
        from qdqtool.quantization.ranges import calibrators

        ours = contestants.ours()
        assert {one.method for one in ours} >= set(calibrators.names()) - {calibrators.DEFAULT}
        assert len({one.label for one in ours}) == len(ours)

    def test_our_command_does_what_it_says(self, tmp_path):
        subject = subjects.prepare("digits_cnn", Workshop(tmp_path, quick=True))
        one = next(one for one in contestants.ours() if one.group == MAX)
        ended = costs.run(one.command(subject, 4, tmp_path / "out.onnx"))
        assert ended.code == 0, ended.said
        assert coverage.count(tmp_path / "out.onnx").full > 0

    def test_the_plain_session_runs(self, tmp_path):
        subject = subjects.prepare("char_lm", Workshop(tmp_path, quick=True))
        assert costs.run(contestants.plain(subject, 2)).code == 0


def bar(results: list[Result], words: str) -> bars.Bar:
    (found,) = [bar for bar in bars.judge(results, "wall") if words in bar.what]
    return found


class TestBars:
    def test_the_best_peer_that_quantizes_no_more_is_the_bar(self):
        rivals = [result(ORT, MAX, 30), result(MODEL_OPTIMIZER, HISTOGRAM, 35, full=8), result(ORT, HISTOGRAM, 20)]
        met = bar([result(OURS, DEFAULT, 34.95), *rivals], "SQNR of the default")
        assert (met.limit, met.met) == (pytest.approx(34.9), True)
        assert not bar([result(OURS, DEFAULT, 34.85), *rivals], "SQNR of the default").met

    def test_a_peer_that_quantizes_more_is_none(self):
        rivals = [result(ORT, MAX, 30), result(ORT, HISTOGRAM, 9, full=8)]
        assert bar([result(OURS, DEFAULT, 20, full=8), *rivals], "SQNR of the default").limit == pytest.approx(8.9)

    def test_a_peer_whose_model_gives_no_numbers_is_none(self):
        ours, broken = result(OURS, DEFAULT, 34), result(ORT, MAX, -math.inf)
        assert [made for made in bars.judge([ours, broken], "wall") if "SQNR of the default" in made.what] == []
        assert bar([ours, broken, result(ORT, HISTOGRAM, 20)], "SQNR of the default").limit == pytest.approx(19.9)

    def test_where_all_peers_quantize_more_the_bar_says_so(self):
        found = bar([result(OURS, DEFAULT, 31, full=8), result(ORT, MAX, 30)], "SQNR of the default")
        assert found.met
        assert found.what.endswith("which quantizes more nodes")

    def test_time_is_judged_on_the_clock_asked_for(self):
        fast = bar([result(OURS, MAX, 30, seconds=1.4)], "time")
        assert (fast.figure, fast.limit, fast.met) == (1.4, 1.5, True)
        slow = bar([result(OURS, DEFAULT, 30, seconds=2.6)], "time")
        assert slow.margin == pytest.approx(-0.1)

    def test_a_destroyed_model_is_seen_in_any_mode(self):
        assert not bar([result(OURS, MAX, 30), result(OURS, INT4_32, 3)], "worst SQNR").met

    def test_what_failed_is_shown_and_not_judged(self):
        failed = result(OURS, DEFAULT, 30)
        failed.failed = "no such option"
        assert bars.judge([failed], "wall") == []
        (row,) = tables.rows([failed])
        assert "SKIPPED" in row
        assert len(row) == len(tables.COLUMNS)

    def test_on_the_nodes_of_a_peer_its_own_figure_is_the_bar(self):
        ours = replace(result(OURS, FP8, 38.05, full=4), method=contestants.nodes_of(MODEL_OPTIMIZER))
        rivals = [result(MODEL_OPTIMIZER, FP8, 38.2, full=4), result(ORT, FP8, 60)]
        found = bar([result(OURS, FP8, 28.9), ours, *rivals], "on the nodes of Model Optimizer")
        assert (found.figure, found.limit, found.met) == (38.05, pytest.approx(38.1), False)

    def test_rows_on_the_nodes_of_a_peer_are_not_our_default(self):
        ours = replace(result(OURS, DEFAULT, 50, full=1), method=contestants.nodes_of(ORT))
        found = bar([result(OURS, DEFAULT, 30), ours, result(ORT, MAX, 29)], "SQNR of the default")
        assert found.figure == 30
