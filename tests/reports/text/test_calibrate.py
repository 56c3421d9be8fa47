"""What the terminal says of a calibration."""

from dataclasses import replace

import pytest
from support.printed import ESCAPED, HOSTILE, printed

from qdqtool.jobs.calibrate import CalibrateReport, UnseenTensor
from qdqtool.quantization.calibration_report import MethodTrial
from qdqtool.quantization.cluster.machine import ClusterUsed
from qdqtool.reports.text.calibrate import render
from qdqtool.samples.report import DataDescription

REPORT = CalibrateReport(
    model="m.onnx",
    output="r.json",
    method="entropy",
    target="tensorrt",
    data=DataDescription("images", 8, None, {}),
    shard=None,
    samples=8,
    resumed=0,
    tensors=3,
    unseen=(),
    preparation=(),
)
UNSEEN = UnseenTensor(tensor="t", graph="then", reason="the branch never ran")
HEAD = "ranges of 3 tensors of m.onnx, calibrated with entropy over"


def lines(**changes: object) -> list[str]:
    return printed(render, replace(REPORT, **changes)).splitlines()


@pytest.mark.parametrize(
    ("changes", "at", "line"),
    [
        ({"shard": "1/4", "samples": 2}, 0, f"{HEAD} 2 of 8 samples (shard 1/4) of images"),
        ({"resumed": 5}, 1, "continued after 5 samples of an interrupted run"),
        ({"data": DataDescription("", 8, 7, {})}, 0, f"{HEAD} 8 samples of random inputs, seed 7"),
        ({"data": DataDescription("", 8, 7, {})}, 1, "RANDOM calibration: the ranges say nothing about real inputs"),
        ({"unseen": (UNSEEN,)}, 1, "UNSEEN   t in then: the branch never ran"),
        (
            {"data": DataDescription("images", 1, None, {}), "samples": 1},
            1,
            "ONE sample: values of other samples that lie outside",
        ),
    ],
)
def test_what_the_run_was_is_said(changes: dict[str, object], at: int, line: str):
    assert lines(**changes)[at].startswith(line)


def test_the_method_that_auto_chose_is_named():
    trial = MethodTrial(method="max", samples=8, gains_db={"max": 1.0}, errors_db={"max": 0.26})
    text = lines(method="auto", chosen="max", method_trial=trial)
    assert text[1].startswith("scales by max: outputs keep 1.0 ± 0.3 dB more")
    assert not any("scales by" in line for line in lines(method="auto", chosen="auto"))


def test_strings_of_model_and_data_are_escaped():
    unseen = UnseenTensor(tensor=HOSTILE, graph=HOSTILE, reason=HOSTILE)
    data = DataDescription(HOSTILE, 8, None, {})
    text = "\n".join(lines(model=HOSTILE, output=HOSTILE, data=data, unseen=(unseen,)))
    assert text.count(ESCAPED) == 6


def test_a_cluster_and_what_was_lost_of_it_are_named():
    used = ClusterUsed(
        scheduler="tcp://10.0.0.5:1",
        workers=3,
        lost=("tcp://10.0.0.6:2", "tcp://10.0.0.7:3"),
        sent=1,
        other_processors=("Another (x86_64), 8 CPUs, avx2",),
    )
    found = lines(cluster=used)
    assert "run by 3 workers of tcp://10.0.0.5:1; the model was sent to 1 of them" in found
    assert "LOST     2 workers: tcp://10.0.0.6:2, tcp://10.0.0.7:3; others ran their samples" in found
    assert "OTHER    processor in a worker: Another (x86_64), 8 CPUs, avx2; its ranges may differ by rounding" in found

    quiet = lines(cluster=replace(used, lost=(), sent=0, other_processors=()))
    assert "run by 3 workers of tcp://10.0.0.5:1" in quiet
    assert not [line for line in quiet if line.startswith(("LOST", "OTHER"))]
