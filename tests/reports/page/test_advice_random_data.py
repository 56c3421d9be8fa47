"""Random samples and checks without a float model lead to commands with real data."""

from pathlib import Path

from support.advice import commands_of
from support.saved_reports import CHECK, QUANTIZE, edited

from qdqtool.reports.page.advice import random_samples

RANDOM = {"source": "random", "samples": 4, "random": True, "chosen": ""}


def test_random_ranges_and_random_checks_need_real_data(tmp_path: Path):
    check = edited(CHECK, lambda it: it["data"].update(source="random", seed=0))
    assert commands_of(random_samples, tmp_path, quantize={**QUANTIZE, "calibration": RANDOM}, check=check) == [
        "qdqtool quantize net.onnx --calib-data DATA -o NEW.onnx",
        "qdqtool check out/net.int8.onnx --baseline net.onnx --data DATA",
    ]


def test_data_of_another_report_is_named(tmp_path: Path):
    assert commands_of(random_samples, tmp_path, quantize={**QUANTIZE, "calibration": RANDOM}, check=CHECK) == [
        "qdqtool quantize net.onnx --calib-data data.npz -o NEW.onnx"
    ]


def test_a_check_without_a_float_model_gets_one(tmp_path: Path):
    alone = {**CHECK, "baseline": None}
    assert commands_of(random_samples, tmp_path, check=alone) == [
        "qdqtool check net.int8.onnx --baseline FLOAT.onnx --data data.npz"
    ]


def test_real_data_is_enough(tmp_path: Path):
    assert commands_of(random_samples, tmp_path, quantize=QUANTIZE, check=CHECK) == []
