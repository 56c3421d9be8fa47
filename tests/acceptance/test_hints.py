"""Every hint is tried: what stands between backticks is pasted as it was printed, and has to work.

A command is run as it is; options are added to the command that failed. Words in capitals that the user has to replace
are replaced by what the case gives for them.
"""

import ast
import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import custom_ops
from support.command import exit_code_of, qdqtool
from support.engine_models import FP8, Net, crashing, matmul
from support.networks import Network
from support.paths import ROOT
from support.pictures import picture, save_picture
from support.qdq import text_model
from support.small import conv_model, make_model
from support.sounds import noise, save_sound, sound_net
from support.texts import WORDS, save_lines, save_tokenizer, text_net

from qdqtool.linting import rules

SAMPLE = ROOT / "sample_models" / "digits_cnn"
FILLED = re.compile(r"\\\{0?\\\}|MODEL(\\\.){0,3}")
PASTED = re.compile(r"`([^`]*)`")
RANDOM = ("--random-calibration", "--samples", "1")


@dataclass(frozen=True)
class Case:
    """An error and what becomes of its advice.

    Attributes:
        words: The command that fails.
        says: A part of the hint in the source, without what the message fills in.
        code: Its exit code.
        fills: What the user writes for the words in capitals.
        then: The exit codes that are fine when the advice has been followed.
        leaves: Words of the command that the hint says to leave out.
        adds: What the user adds besides, to the advice of this number.
        of: Commands that the advice of this number is for, where it is for another than the one that failed.
        writes: Files that only this case needs.
        needs: A module that must be installed.
        mended: The model of the command, where advice writes OUT.onnx, on which the same command then works.
    """

    words: str
    says: str
    code: int = 2
    fills: Mapping[str, str] = field(default_factory=dict)
    then: tuple[int, ...] = (0,)
    leaves: tuple[str, ...] = ()
    adds: Mapping[int, str] = field(default_factory=dict)
    of: Mapping[int, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    needs: str = "onnxruntime"
    mended: str = ""


LIKENESS = """
known = {}

def likeness(outputs, labels):
    first = known.setdefault(len(outputs), outputs)  # the float model's, which is measured first
    return -sum(float(abs(a["logits"] - b["logits"]).max()) for a, b in zip(first, outputs, strict=True))
"""

DATA = {"DATA": "data.npz", "RANGES": "ranges.json"}
HAS_CONV = "import sys, onnx; sys.exit(any(n.op_type == 'Conv' for n in onnx.load(sys.argv[1]).graph.node))"
CASES = {
    "a command without a place for the model": Case(
        f"reduce float.onnx --fails '{sys.executable} has_conv.py' -o small.onnx",
        "write {} for the path of the model: `--fails {}`",
        writes={"has_conv.py": HAS_CONV},
    ),
    "no calibration data": Case(
        "quantize float.onnx -o q2.onnx", "`--calib-data DATA` or `--calibration-cache RANGES`; or", fills=DATA
    ),
    "a conversion into a file": Case(
        "convert float.onnx --calib-data data.npz --no-build -o q.onnx",
        "name a folder: `-o FOLDER`",
        fills={"FOLDER": "converted"},
        leaves=("-o", "q.onnx"),
    ),
    "a conversion over a file of others": Case(
        "convert float.onnx --calib-data data.npz --no-build -o .",
        "move it away, or name another folder: `-o FOLDER`",
        fills={"FOLDER": "converted"},
        leaves=("-o", "."),
        writes={"report.json": "{}"},
    ),
    "an engine for a target that has none": Case(
        "convert float.onnx --calib-data data.npz --target ort-cpu -o converted",
        "`--no-build`, or name the builder: `--backend NAME`",
        fills={"NAME": "tensorrt-rtx"},
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
    "a recipe with an unknown option": Case(
        "convert float.onnx --recipe r.toml -o converted",
        "`qdqtool convert --write-recipe` prints a recipe with all options",
        writes={"r.toml": "sampels = 3"},
    ),
    "a migration without a line": Case("migrate", "`qdqtool explain from-trtexec` has examples"),
    "an operator that ONNX Runtime does not know": Case(
        "quantize custom.onnx --calib-data custom.npz -o q.onnx",
        "`--ort-custom-ops LIB` loads a library that has the operator; `--stand-in FILE.onnx` runs",
        code=4,
        fills={"LIB": str(custom_ops.library_path()), "FILE.onnx": "stand_in.onnx"},
        needs="onnxruntime_extensions",
    ),
    "a check without a model": Case("check", "`qdqtool explain ci` has an example"),
    "a conversion over a file that it is given": Case(
        "convert float.onnx --calib-data data.npz --no-build --save-outputs report.json -o .",
        "name another folder: `-o FOLDER`",
        fills={"FOLDER": "converted"},
        leaves=("-o", "."),
    ),
    "images without a preset": Case(
        "calibrate rgb.onnx --calib-data photos -o r9.json", "name a preset, as `--image-preset imagenet`; there are"
    ),
    "sound without a rate": Case(
        "calibrate sound.onnx --calib-data sounds -o r9.json", "give the rate in Hz: `--sound-rate 16000`"
    ),
    "sound of an open length": Case(
        "calibrate sound_open.onnx --calib-data sounds --sound-rate 8000 -o r9.json",
        "give the number of values of a window: `--sound-length 16000`",
    ),
    "text without a tokenizer": Case(
        "calibrate text.onnx --calib-data lines.txt --text-length 8 -o r9.json",
        "name the tokenizer of the model: `--tokenizer tokenizer.json`",
    ),
    "text of an open length": Case(
        "calibrate text.onnx --calib-data lines.txt --tokenizer tokenizer.json -o r9.json",
        "give it: `--text-length 128`",
    ),
    "text without a token that fills": Case(
        "calibrate text.onnx --calib-data lines.txt --tokenizer unpadded.json --text-length 8 -o r9.json",
        "name one: `--text-pad-token '<|endoftext|>'`",
    ),
    "images of another size": Case(
        "calibrate rgb.onnx --calib-data photos --image-preset unit --image-resize none -o r9.json",
        "`--image-resize stretch`, `--image-resize crop` or",
    ),
    "images for an open size": Case(
        "calibrate rgb_open.onnx --calib-data photos --image-preset unit -o r9.json",
        "give height and width: `--image-size 320x320`",
    ),
    "images for an unknown layout": Case(
        "calibrate rgb_channels.onnx --calib-data photos --image-preset unit -o r9.json",
        "`--image-layout nchw` if channels come before",
        then=(0, 2),  # one of the two is right
    ),
    "images in color for one channel": Case(
        "calibrate float.onnx --calib-data photos --image-preset unit --image-channels rgb -o r9.json",
        "`--image-channels grey`",
    ),
    "images in grey for three channels": Case(
        "calibrate rgb.onnx --calib-data photos --image-preset unit --image-channels grey -o r9.json",
        "`--image-channels rgb` or `--image-channels bgr`",
    ),
    "three means for one channel": Case(
        "calibrate float.onnx --calib-data photos --image-preset imagenet -o r9.json",
        "`--image-mean 0.45 --image-std 0.22`",
    ),
    "images as fractions for integers": Case(
        "calibrate rgb_integers.onnx --calib-data photos --image-preset unit -o r9.json",
        "keep the pixels integers: `--image-range 0..255`",
    ),
    "images without labels": Case(
        "check rgb.onnx --data photos --image-preset unit --metric top-1",
        "or give `--labels FILE.csv` with rows FILE,LABEL",
        fills={"FILE.csv": "labels.csv"},
        then=(0, 2),  # the output of this model holds no scores
        writes={"labels.csv": "0.png,0\n1.png,1\n"},
    ),
    "a class without images": Case(
        "check rgb.onnx --data classes --image-preset unit --metric top-1",
        "move the folder away, or give `--labels FILE.csv`",
        fills={"FILE.csv": "labels.csv"},
        then=(0, 2),
        writes={"labels.csv": "a/0.png,0\n"},
    ),
    "folders whose numbers are not those of the classes": Case(
        "check rgb.onnx --data numbers --image-preset unit --metric top-1",
        "as 00 to 11; or give `--labels FILE.csv`",
        fills={"FILE.csv": "labels.csv"},
        then=(0, 2),
        writes={"labels.csv": "2/0.png,0\n10/0.png,1\n"},
    ),
    "no data to calibrate": Case("calibrate float.onnx -o r2.json", "`--calib-data DATA`; or, for a trial", fills=DATA),
    "validation data alone": Case(
        "quantize float.onnx --validation-data data.npz -o q2.onnx", "add `--calib-data DATA` with other", fills=DATA
    ),
    "a goal that no model keeps": Case(
        "quantize float.onnx --calib-data data.npz --min-sqnr 200 -o q2.onnx", "`--min-sqnr {}`; or {}", code=1
    ),
    "a speedup that cannot be read": Case(
        "bench int8.engine --speedup 1.2", "`--speedup '>=1.2x'`", then=(2, 4), leaves=("--speedup", "1.2")
    ),
    "an engine without samples": Case("run int8.engine -o outputs.npz", "add `--data DATA`", then=(3, 4), fills=DATA),
    "blame without a baseline": Case(
        "check float.onnx --blame", "give `--baseline FLOAT.onnx`", fills={"FLOAT.onnx": "float.onnx"}
    ),
    "float16 as a fallback": Case(
        "quantize float.onnx --calib-data data.npz --min-sqnr 10 --fallback fp16 -o q2.onnx",
        "`--high-precision-dtype fp16` stores the layers that stay in float",
        leaves=("--fallback", "fp16"),
    ),
    "a fallback without a goal": Case(
        "quantize float.onnx --calib-data data.npz --fallback fp8 -o q2.onnx", "`--min-sqnr 30`, in dB"
    ),
    "a goal that is no number": Case(
        "quantize float.onnx --calib-data data.npz --min-sqnr nan -o q2.onnx", "`--min-sqnr 30`, in dB"
    ),
    "a goal without samples": Case(
        "quantize float.onnx --quantize-mode int8-weight-only --min-sqnr 30 -o q2.onnx",
        "`--calib-data DATA`, also where weights",
        fills=DATA,
    ),
    "a loss without a metric": Case(
        "quantize float.onnx --calib-data test.npz --max-metric-loss 50 -o q2.onnx",
        "give `--metric NAME` as well",
        fills={"NAME": "top-1"},
    ),
    "a metric without samples": Case(
        "quantize float.onnx --quantize-mode int8-weight-only --metric top-1 -o q2.onnx",
        "`--calib-data DATA`, with the array 'labels' if",
        fills={"DATA": "test.npz"},
    ),
    "a loss that the samples cannot show": Case(
        "quantize float.onnx --calib-data test.npz --metric top-1 --max-metric-loss 1 -o q2.onnx",
        "{} of that part can show it{}; or `--max-metric-loss {}`",
    ),
    "a loss that no model keeps": Case(
        "quantize float.onnx --calib-data data.npz --metric metric.py:likeness --max-metric-loss 1e-9 -o q2.onnx",
        "`{}`; or {}",
        code=1,
        writes={"metric.py": LIKENESS},
    ),
    "no output": Case(f"quantize float.onnx {' '.join(RANDOM)}", "`-o OUT.onnx`; or `--list-matches`"),
    "open dimensions": Case(
        "quantize open.onnx --random-calibration --samples 1 -o q2.onnx", "give data, or shapes, for example: `{}`"
    ),
    "a value for an open shape": Case(
        "check open_q.onnx --input-shapes b:1x1 --input-values a:0.5", "give its shape too, for example: `--input"
    ),
    "several open inputs": Case("check open_q.onnx", "give data, or shapes, for example: `{}`"),
    "a mode without ranges": Case(
        "calibrate float.onnx --quantize-mode int8-weight-only --random-calibration -o r2.json", "` needs no ranges"
    ),
    "a pattern that matches nothing": Case(
        "quantize float.onnx --calib-data data.npz -o q2.onnx --nodes-to-exclude nothing",
        "leave {} out, and `--list-matches` lists every node",
        leaves=("--nodes-to-exclude", "nothing"),
    ),
    "a model that is quantized already": Case(
        "quantize q.onnx --calib-data data.npz -o q2.onnx", "`--existing keep` quantizes only the float nodes"
    ),
    "a target without a parser": Case(
        "validate q.onnx --parser", "add `--target {}`", then=(0, 1), needs="tensorrt_rtx"
    ),
    "swapped models": Case("check float.onnx --baseline q.onnx --data data.npz", "`qdqtool check {} --baseline {}`"),
    "a mode that a GPU lacks": Case(
        "quantize float.onnx --quantize-mode fp8 --sm 8.6 --calib-data data.npz -o q2.onnx",
        "`--quantize-mode int8`, or GPUs from `--sm {}` on",
    ),
    "a GPU that the target does not build for": Case(
        "quantize float.onnx --random-calibration --target tensorrt-rtx --sm 8.7 -o out_gpu.onnx",
        "`--target tensorrt` is for this GPU",
        leaves=("--target", "tensorrt-rtx"),
    ),
    "blocks in int8": Case(
        "quantize float.onnx --block-size 32 --calib-data data.npz -o q2.onnx",
        "leave it out, or choose a mode with blocks: `--quantize-mode int4`",
    ),
    "a percentile as a share": Case(
        "quantize float.onnx --calibration-method percentile --percentile 0.9999 --calib-data data.npz -o q2.onnx",
        "did you mean `--percentile {}`?",
    ),
    "a limit below 0 dB": Case(
        "check q.onnx --baseline float.onnx --data data.npz --min-sqnr -5",
        "`--min-sqnr 20` limits the error to a tenth",
    ),
    "a plan that is none": Case("insert float.onnx --plan broken.toml -o q2.onnx", "`qdqtool explain files` shows"),
    "a plan of another model": Case(
        "insert float.onnx --plan other.toml -o q2.onnx", "`qdqtool inspect --tensors MODEL` lists the tensors"
    ),
    "ranges that are none": Case(
        "quantize float.onnx --calibration-cache broken.json -o q2.onnx",
        "`qdqtool calibrate MODEL --calib-data DATA -o RANGES` writes a ranges file; `qdqtool explain other-tools`",
        fills={"DATA": "data.npz", "RANGES": "r3.json"},
    ),
    "our ranges as those of another tool": Case(
        "insert float.onnx --encodings ranges.json -o q2.onnx", "quantize with it: `{}`"
    ),
    "ranges without histograms": Case(
        "quantize float.onnx --calibration-cache max.json --calibration-method entropy -o q2.onnx",
        "quantize with `--calibration-method {}`, or calibrate again with `--calibration-method {}`",
        of={1: "calibrate float.onnx --calib-data data.npz -o max.json"},
    ),
    "a shard as ranges": Case(
        "quantize float.onnx --calibration-cache shard1.json -o q2.onnx",
        "join all shards: `qdqtool merge SHARD... -o RANGES`; quantizing with `--force`",
        fills={"SHARD...": "shard1.json shard2.json", "RANGES": "r3.json"},
    ),
    "too many shards": Case(
        "calibrate float.onnx --calib-data data.npz --shard 1/99 -o r3.json", "at most {} are possible: `--shard 1/{}`"
    ),
    "equalized ranges": Case(
        "convert-ranges equalized.json --to npz -o r.npz",
        "calibrate again with `{}`, then convert",
        of={0: "calibrate uneven.onnx --calib-data data.npz -o equalized.json"},
    ),
    "a fix without a place": Case(
        "validate bad.onnx --fix", "give one of `-o OUT.onnx`, `--in-place`, or `--diff`", then=(0, 1)
    ),
    "two fixes into one file": Case(
        "validate bad.onnx bad2.onnx --fix -o OUT.onnx", "or use `--in-place`", leaves=("-o", "OUT.onnx"), then=(0, 1)
    ),
    "a fix in place with external data": Case(
        "validate outside.onnx --fix --in-place",
        "write it elsewhere: `-o OUT.onnx`",
        leaves=("--in-place",),
        then=(0, 1),
    ),
    "an option of --fix": Case(
        "validate bad.onnx --unsafe-fixes",
        "add `--fix`, or `--diff` to only print the changes",
        adds={0: "-o OUT.onnx"},
        then=(0, 1),
    ),
    "two baselines": Case(
        "validate bad.onnx --baseline b.json --write-baseline c.json",
        "`--write-baseline FILE` writes all",
        leaves=("--baseline", "b.json", "--write-baseline", "c.json"),
        fills={"FILE": "c.json"},
    ),
    "a baseline that is none": Case(
        "validate bad.onnx --baseline broken.json", "write a new one: `qdqtool validate MODEL... --write-baseline {}`"
    ),
    "unknown settings": Case(
        "validate float.onnx", "`qdqtool explain validate` lists the settings", writes={"qdqtool.toml": "colour = 1\n"}
    ),
    "an unknown schema": Case("schema chek", "`qdqtool schema` lists them"),
    "an unknown rule": Case("explain QP999", "`qdqtool rules` lists all rules; `qdqtool explain` lists the pages"),
    "an unknown rule to ignore": Case(
        "validate float.onnx --ignore QP999", "`qdqtool rules` lists all rules; `qdqtool explain` lists the pages"
    ),
    "a limit without a baseline": Case(
        "check q.onnx --min-sqnr 1",
        "give `--baseline FLOAT.onnx` or `--outputs FILE`",
        fills={"FLOAT.onnx": "float.onnx", "FILE": "outputs.npz --data data.npz"},
    ),
    "a metric limit without a metric": Case(
        "check q.onnx --data test.npz --max-metric-loss 50",
        "give `--metric NAME` as well",
        fills={"NAME": "top-1 --baseline float.onnx"},
    ),
    "outputs without data": Case(
        "check q.onnx --outputs outputs.npz", "give `--data DATA`", fills={"DATA": "data.npz"}
    ),
    "a metric without answers": Case(
        "check q.onnx --metric top-1", "give `--data FILE.npz` with the inputs", fills={"FILE.npz": "test.npz"}
    ),
    "a metric of several outputs": Case(
        "check two.onnx --data test.npz --metric top-1", "name the one with the scores, for example: `--metric {}`"
    ),
    "a metric script without its function": Case(
        "check q.onnx --metric metric.py",
        "`--metric {}:FUNCTION`",
        writes={"metric.py": "def score(outputs, labels):\n    return float(len(outputs))\n"},
        fills={"FUNCTION": "score"},
    ),
    "a limit that is none": Case(
        "check q.onnx --max-weight-steps nan --samples 1", "`--max-weight-steps inf` leaves the limit out"
    ),
    "a limit that no node keeps": Case(
        "cast float.onnx --min-sqnr 200 -o h.onnx", "a lower limit: `--min-sqnr DB`", fills={"DB": "30"}, code=1
    ),
    "a folder that is not there": Case("strip q.onnx -o new/deep/f.onnx", "create it first: `mkdir -p {}`"),
    "external data beside a stream": Case(
        "strip q.onnx -o /dev/null --external-data always", "name a file: `-o OUT.onnx`"
    ),
    "random inputs that do not fit": Case(
        "check picky.onnx",
        "the inputs were random; give real ones with `--data DATA`",
        code=2,
        fills={"DATA": "picky.npz"},
    ),
    "random calibration that does not fit": Case(
        "quantize picky.onnx --random-calibration -o q2.onnx",
        "the inputs are random; give real ones: `--calib-data DATA`",
        leaves=("--random-calibration",),
        fills={"DATA": "picky.npz"},
    ),
    "a model that the reference refuses": Case(
        "check invalid.onnx", "`qdqtool validate --target ort-cpu MODEL` lists what is wrong", code=3, then=(1,)
    ),
    "shapes of an engine": Case(
        "build open.onnx -o e", "give data, or shapes, for example: `{}`", needs="tensorrt_rtx"
    ),
    "sizes of an engine that depend on each other": Case(
        "build masked.onnx -o e", "give data, or shapes, for example: `{}`", needs="tensorrt_rtx"
    ),
    "random sizes that depend on each other": Case(
        "quantize masked.onnx --random-calibration -o q2.onnx", "give data, or shapes, for example: `{}`"
    ),
    "values of an engine": Case(
        "build values.onnx -o e", "give your values, for example: `--opt-shape-values {}`", needs="tensorrt_rtx"
    ),
    "a model that does not pass": Case(
        "build bad.onnx -o e --backend tensorrt-rtx",
        "`{} {} -o OUT.onnx` fixes it",
        code=1,
        needs="tensorrt_rtx",
        mended="bad.onnx",
    ),
    "a bias as codes": Case(
        "build bias.onnx -o e --backend tensorrt-rtx",
        "`{} {} -o OUT.onnx` fixes it",
        code=1,
        needs="tensorrt_rtx",
        mended="bias.onnx",
    ),
    "a model that does not pass and has no fix": Case(
        "build attention.onnx -o e --backend tensorrt-rtx",
        "`{}` shows all findings",
        code=1,
        then=(1,),
        needs="tensorrt_rtx",
    ),
    "a GPU that lacks a type": Case(
        "build fp8.onnx -o e --compute-capabilities 8.0", "use `--compute-capabilities {}`", needs="tensorrt_rtx"
    ),
    "a profile without shapes": Case(
        "build open.onnx -o e --skip-validate --profile 1 --opt-shapes x:2x3x8x8",
        "add shapes after it, for example: `--profile {} --opt-shapes NAME",
        fills={"NAME:1x3x320x320": "x:1x3x8x8"},
        needs="tensorrt_rtx",
    ),
    "a lean runtime of no engine": Case(
        "build float.onnx -o e --exclude-lean-runtime", "add `--version-compatible`", needs="tensorrt_rtx"
    ),
    "a lean runtime that is absent": Case(
        "build float.onnx -o e --version-compatible", "`--exclude-lean-runtime` builds", code=4, needs="tensorrt_rtx"
    ),
    "misses of no timing cache": Case(
        "build float.onnx -o e --error-on-timing-cache-miss",
        "add `--timing-cache-file FILE`",
        fills={"FILE": "t.cache"},
        needs="tensorrt_rtx",
    ),
    "a refit for several GPUs": Case(
        "build float.onnx -o e --refit",
        "give the compute capability of your GPU: `--compute-capabilities {}`",
        then=(0, 4),  # it needs a GPU
        needs="tensorrt_rtx",
    ),
    "too little time": Case(
        "build float.onnx -o e --timeout 0.001",
        "give it more time: `--timeout SECONDS`",
        code=1,
        fills={"SECONDS": "120"},
        then=(0, 2),
        needs="tensorrt_rtx",
    ),
    "a builder that crashes": Case(
        "build crash.onnx -o e --skip-validate",
        "a fault of the builder; `--verbose-log FILE` keeps its log",
        code=1,
        fills={"FILE": "log.txt"},
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
    "a part that crashes": Case(
        "build crash.onnx -o e --skip-validate",
        "`{}` finds the smallest model with this fault",
        code=1,
        fills={"FILE": "log.txt"},
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
    "a fault that has a fix": Case(
        "build bias.onnx -o e --skip-validate",
        "`qdqtool validate --target {} {} MODEL -o OUT.onnx` does that",
        code=1,
        needs="tensorrt_rtx",
        mended="bias.onnx",
    ),
    "a scale that is wrong": Case(
        "build bad.onnx -o e --skip-validate",
        "`qdqtool validate --target tensorrt-rtx MODEL` names the tensor and the values",
        code=1,
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
    "an empty zero point": Case(
        "build empty_name.onnx -o e --skip-validate",
        "`qdqtool validate --target tensorrt-rtx MODEL` names the input",
        code=1,
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
    "an operator with a form as Q and DQ": Case(
        "build qlinear.onnx -o e --skip-validate",
        "`qdqtool normalize MODEL -o OUT.onnx` writes it as QuantizeLinear and DequantizeLinear",
        code=1,
        needs="tensorrt_rtx",
        mended="qlinear.onnx",
    ),
    "an operator that others define": Case(
        "build attention.onnx -o e --skip-validate",
        "by the operators that define it, run `",
        code=1,
        then=(0, 1),
        needs="tensorrt_rtx",
        mended="attention.onnx",
    ),
    "an old opset": Case(
        "build old.onnx -o e --skip-validate",
        "to convert the model to opset 13, run `",
        code=1,
        then=(0, 1),
        needs="tensorrt_rtx",
        mended="old.onnx",
    ),
    "shapes of a float input": Case(
        "build resized.onnx -o e --skip-validate",
        "make it a constant, `--input-values {0}:VALUE`, or an integer input",
        code=1,
        fills={"VALUE": "[1,1,2,2]"},
        needs="tensorrt_rtx",
    ),
    "nodes without an order": Case(
        "build cycle.onnx -o e --skip-validate",
        "`qdqtool validate --target onnx MODEL` names the tensor",
        code=1,
        then=(1,),
        needs="tensorrt_rtx",
    ),
    "a tensor that nothing makes": Case(
        "build dangling.onnx -o e --skip-validate",
        "`qdqtool validate --target onnx,tensorrt-rtx MODEL` names the tensor",
        code=1,
        then=(1,),
        needs="tensorrt_rtx",
    ),
    "an output that nothing makes": Case(
        "build no_output.onnx -o e --skip-validate",
        "`qdqtool validate --target onnx MODEL` names the output",
        code=1,
        then=(0, 1),
        needs="tensorrt_rtx",
    ),
}

ELSEWHERE = {
    "`--force` inserts this one anyway": "tests/jobs/test_insert.py gives the option",
    "` lists the kernels": "tests/jobs/test_inspect_engine.py inspects engines",
    "fix the shapes instead of --opt-shapes": "tests/engines/build/test_build_model.py pastes it",
    "qdqtool does not know this message": "tests/engines/build/test_refusal.py pastes it",
    "` finds the node": "tests/engines/build/test_refusal.py pastes the command",
    "of a fast tokenizer writes it": "needs transformers",
    "finds the smallest model with this message": "tests/engines/build/test_refusal.py pastes the command",
    "a fault of TensorRT; `": "tests/engines/build/test_parser_answer.py has the model",
    "`--drop-clipping` writes": "tests/jobs/test_strip.py asks for both",
    "writes it as operators of ONNX": "tests/linting/repair/forms/test_contrib_operators.py normalizes them",
    "one file, but the fixed model": "needs a model above 2 GiB",
    "`git lfs pull`": "needs a repository with git lfs",
    "other --input-shapes and --input-values may pass; `--skip-validate`": "tests/jobs/test_build.py pastes it",
    "nvidia-smi": "needs a GPU",
    "copy the engine and the data to the machine with the GPU": "needs a GPU",
    "build it for your shapes: `": "needs a GPU; tests/engines/gpu/test_gpu.py builds for a range of shapes",
    "build it here: `": "needs a GPU",
    "give samples: `--calib-data DATA`": "tests/jobs/test_migrate.py gives them",
    "give samples: `--data DATA`": "needs a GPU; tests/engines/gpu/test_tensorrt_runner.py asks for it",
    "runs it on the CPU": "needs a GPU",
    "lists the driver and the versions": "needs a GPU",
    "give the engine of the float model: `--against": "needs a GPU; tests/jobs/test_bench.py follows it",
    "install it: `": "test_what_is_to_be_installed_exists",
    "`pip ": "test_what_is_to_be_installed_exists",
    "builds without one": "needs TensorRT without a GPU",
    "leave the option out, or use `--backend tensorrt-rtx`": "needs TensorRT",
    "`qdqtool doctor` lists what works here": "tests/engines/build/test_parser_answer.py has no parser",
    "if you have a plugin of this name, `--plugins LIB`": "test_parsing_plugins.py loads libraries",
    "`--verbose-log FILE` keeps its log": "the hint of a builder that crashes has it too",
    "`--existing keep`, or another source": "tests/quantization/planning/test_existing_pairs.py refuses to replace",
    "quantizes the whole model again": "tests/quantization/planning/test_existing_pairs.py has the model",
    "a fault of qdqtool": "no model is known that gives it",
    "the same calibration again": "tests/quantization/ranges/test_checkpoint.py goes on with one",
    "remove it from the recipe": "tests/cli/test_recipe_file.py names it on the command line",
    "`--no-build` converts without an engine": "tests/jobs/conversion/test_convert.py takes the builder away",
    "`dask scheduler` prints": "tests/quantization/cluster/test_connection.py starts one",
    "name the address that `dask scheduler` prints": "the same",
    "`dask scheduler` starts a scheduler": "the same",
    "of the worker: {}": "tests/quantization/cluster/test_machine.py has other versions",
    "on each machine: `dask worker": "tests/quantization/cluster/test_collector.py starts them",
    "of this machine, or `--shard`": "tests/quantization/cluster/test_task.py has another processor",
    "choose the --quantize-mode": "names a page, as tests/jobs/test_pages.py wants",
}
"""Parts of the hints that are not tried here, and why."""


MASKED = """
<ir_version: 10, opset_import: ["": 21]>
g (float[n, s, 32] x, float[n, 1, s, t] mask, float[n, 2, p, 16] past) => (float[n, 2, s, t] y)
<float[32, 32] w = {WEIGHT}, int64[4] heads = {0, 0, 2, 16}>
{
  made = MatMul (x, w)
  split = Reshape (made, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (split)
  k = Concat <axis = 2> (past, q)
  kt = Transpose <perm = [0, 1, 3, 2]> (k)
  scores = MatMul (q, kt)
  y = Add (scores, mask)
}
""".replace("WEIGHT", ",".join(f"{(7 * number % 32) / 32 - 0.5}" for number in range(1024)))
"""A mask for cached and new tokens together."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the cases name."""
    folder = tmp_path_factory.mktemp("stock")
    float_model = onnx.load(SAMPLE / "model.onnx")
    onnx.save(float_model, folder / "float.onnx")
    samples = np.load(SAMPLE / "test.npz")
    np.savez(folder / "data.npz", image=samples["image"][:40])
    np.savez(folder / "test.npz", image=samples["image"][:40], labels=samples["labels"][:40])
    write_models(folder)
    (folder / "broken.toml").write_text("schema_version = 1\n[[tensors]]\nformat = 3\n", encoding="utf-8")
    (folder / "other.toml").write_text(
        'schema_version = 1\n[[tensors]]\ntensor = "elsewhere"\nformat = "int8"\nscale = 1.0\n', encoding="utf-8"
    )
    (folder / "broken.json").write_text('{"schema_version": 99}', encoding="utf-8")
    shutil.copy(ROOT / "sample_models" / "digits_depthwise" / "uneven.onnx", folder)
    for words in (
        "calibrate uneven.onnx --calib-data data.npz -o equalized.json",
        "quantize float.onnx --calib-data data.npz -o q.onnx",
        "calibrate float.onnx --calib-data data.npz -o ranges.json",
        "calibrate float.onnx --calib-data data.npz --calibration-method max -o max.json",
        "calibrate float.onnx --calib-data data.npz --shard 1/2 -o shard1.json",
        "calibrate float.onnx --calib-data data.npz --shard 2/2 -o shard2.json",
        "check q.onnx --data data.npz --save-outputs outputs.npz",
    ):
        assert exit_code_of(shlex.split(words), folder) == 0, words
    two = onnx.load(folder / "q.onnx")
    two.graph.node.append(helper.make_node("Identity", [two.graph.output[0].name], ["again"]))
    two.graph.output.add(name="again").type.CopyFrom(two.graph.output[0].type)
    onnx.save(two, folder / "two.onnx")
    return folder


def write_models(folder: Path) -> None:
    """Models that are wrong or odd in one way each."""
    for name in ("bad", "bad2"):
        onnx.save(rules.get("QP101").INVALID[0].model(), folder / f"{name}.onnx")
    outside = rules.get("QP101").INVALID[0].model()
    for tensor in outside.graph.initializer:  # only raw data is stored outside
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(outside, folder / "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=0)
    open_shapes = conv_model()
    open_shapes.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", "c", "h", "w")))
    open_shapes.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    onnx.save(open_shapes, folder / "open.onnx")
    net = Net()
    net.op("Add", [net.activation("a"), net.activation("b")], "y")
    onnx.save(net.model({"a": ("n", "length"), "b": ("n", "length")}), folder / "open_q.onnx")
    onnx.save(with_index(), folder / "picky.onnx")
    rows = np.random.default_rng(1).normal(size=(1, 1, 32)).astype(np.float32)
    np.savez(folder / "picky.npz", x=rows, n=np.full((1, 1), -999, np.int64))
    onnx.save(matmul(kind=FP8, x_kind=FP8), folder / "fp8.onnx")
    onnx.save(crashing(), folder / "crash.onnx")
    values = make_model([helper.make_node("Expand", ["x", "size"], ["y"])], {"x": (1, 4)}, {"y": ("a", "b")}, {})
    values.graph.input.append(helper.make_tensor_value_info("size", TensorProto.INT64, [2]))
    onnx.save(values, folder / "values.onnx")
    onnx.save(rules.get("QL311").INVALID[0].model(), folder / "invalid.onnx")
    onnx.save(text_model(MASKED).proto, folder / "masked.onnx")
    onnx.save(custom_ops.between(), folder / "custom.onnx")
    np.savez(folder / "custom.npz", x=np.random.default_rng(6).normal(size=(4, 4, 16)).astype(np.float32))
    custom_ops.stand_in(folder / "stand_in.onnx", "NegPos", custom_ops.CONTRIB, "b = Neg (a) p = Relu (a)", ("b", "p"))
    write_refused(folder)
    write_images(folder)


def write_images(folder: Path) -> None:
    """Images in color, and models that take them with open dimensions or as integers."""
    for name, shape in {"rgb": (1, 3, 16, 16), "rgb_open": (1, 3, "h", "w"), "rgb_channels": (1, "c", 16, 16)}.items():
        net = Network()
        net.relu(net.conv("x", "y", (16, 3, 3, 3)))
        onnx.save(net.model({"x": shape}), folder / f"{name}.onnx")
    net = Network()
    net.conv(net.op("Cast", ["pixels"], "x", to=TensorProto.FLOAT), "y", (16, 3, 3, 3))
    integers = net.model({"pixels": (1, 3, 16, 16)})
    integers.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    onnx.save(integers, folder / "rgb_integers.onnx")
    for number, name in enumerate(("photos/0", "photos/1", "classes/a/0", "numbers/2/0", "numbers/10/0")):
        save_picture(folder / f"{name}.png", picture(20, 30, number))
    (folder / "classes" / "b").mkdir()
    write_sound_and_text(folder)


def write_sound_and_text(folder: Path) -> None:
    """Networks of sound and text, and files for them."""
    onnx.save(sound_net(), folder / "sound.onnx")
    open_length = sound_net()
    open_length.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "time"
    del open_length.graph.output[0].type.tensor_type.shape.dim[2:]
    open_length.graph.output[0].type.tensor_type.shape.dim.add(dim_param="time")
    onnx.save(open_length, folder / "sound_open.onnx")
    save_sound(folder / "sounds/1.wav", noise(140))
    onnx.save(text_net(), folder / "text.onnx")
    save_lines(folder / "lines.txt", 3)
    save_tokenizer(folder / "tokenizer.json")
    save_tokenizer(folder / "unpadded.json", words=("<|endoftext|>", *WORDS[1:]))


def write_refused(folder: Path) -> None:
    """Models that parser or builder of TensorRT for RTX refuse."""
    examples = {
        "bias": ("QL301", "an int32 bias"),
        "empty_name": ("QT404", "an empty name"),
        "qlinear": ("QT403", "QLinearMatMul"),
        "cycle": ("QM615", "a tensor that depends on itself"),
        "dangling": ("QS009", "a scale that is nowhere"),
        "no_output": ("QM615", "an output that nothing makes"),
    }
    for name, (code, title) in examples.items():
        example = next(each for each in rules.get(code).INVALID if each.title.startswith(title))
        onnx.save(example.model(), folder / f"{name}.onnx")
    size = (1, 2, 4, 8)
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    attention = make_model([node], dict.fromkeys("qkv", size), {"y": size}, {})
    attention.opset_import[0].version = 23
    onnx.save(attention, folder / "attention.onnx")
    weights = {"b": np.ones((3,), np.float32)}
    old = make_model([helper.make_node("Add", ["x", "b"], ["y"], broadcast=1)], {"x": (2, 3)}, {"y": (2, 3)}, weights)
    old.opset_import[0].version = 6
    onnx.save(old, folder / "old.onnx")
    resize = helper.make_node("Resize", ["x", "", "scales"], ["y"])
    resized = make_model([resize], {"x": (1, 1, 2, 2), "scales": (4,)}, {"y": (1, 1, "h", "w")}, {})
    onnx.save(resized, folder / "resized.onnx")


def with_index() -> onnx.ModelProto:
    """x[1,32] -> MatMul -> Add a row of a table that n + 1000 names: outside for the n that are drawn at random."""
    weights = {
        "w": np.random.default_rng(2).normal(size=(32, 32)).astype(np.float32),
        "table": np.ones((4, 32), np.float32),
        "offset": np.array([1000], np.int64),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["n", "offset"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["row"]),
        helper.make_node("Add", ["m", "row"], ["y"]),
    ]
    model = make_model(nodes, {"x": (1, 32)}, {"y": (1, 32)}, weights)
    model.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, [1]))
    return model


def pasted(hint: str, case: Case) -> Iterator[str]:
    """What stands between backticks, with the user's words in place of those in capitals."""
    for text in PASTED.findall(hint):
        filled = text
        for word in sorted(case.fills, key=len, reverse=True):
            filled = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _, word=word: case.fills[word], filled)
        yield filled


@pytest.mark.slow(reason="runs commands that fail, and each advice")
@pytest.mark.parametrize("name", CASES)
def test_the_advice_works_as_it_is_printed(name: str, stock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    case = CASES[name]
    pytest.importorskip(case.needs)
    folder = tmp_path / "here"
    shutil.copytree(stock, folder)
    for file, text in case.writes.items():
        (folder / file).write_text(text, encoding="utf-8")
    failed = shlex.split(case.words)
    capsys.readouterr()
    assert exit_code_of(failed, folder) == case.code
    error = capsys.readouterr().err
    hint = error.partition("hint: ")[2].strip()
    assert re.search(FILLED.sub(".*", re.escape(case.says)), hint), error

    advice = list(pasted(hint, case))
    assert advice
    for number, text in enumerate(advice):
        again = tmp_path / str(number)
        shutil.copytree(folder, again)
        follow(text, [word for word in failed if word not in case.leaves], case, again, number)
        if case.mended and (again / "OUT.onnx").exists():
            assert exit_code_of(["OUT.onnx" if word == case.mended else word for word in failed], again) == 0
        told = capsys.readouterr()
        assert "No such" not in told.err, told.err


@dataclass(frozen=True)
class Promise:
    """A piece of advice of a report, and the figure that it raises.

    Attributes:
        words: The command whose report advises.
        advice: What finds the words to paste in the report.
        figure: Reads a figure from the JSON of a command.
        least: By how much the figure rises.
    """

    words: str
    advice: str
    figure: Callable[[Any], float]
    least: float


def worst_db(report: Any) -> float:
    return min(output["sqnr_db"] for output in report["accuracy"]["outputs"])


def sound(report: Any) -> float:
    return -report["summary"]["errors"]


def in_half_precision(report: Any) -> float:
    macs = report["work"]["by_type"]
    return macs.get("float16", 0) / sum(macs.values())


QUANTIZED = "quantize uneven.onnx --no-equalize --calib-data data.npz -o low.onnx"
PROMISES = {
    "a limit that layers in float keep": Promise(QUANTIZED, r"`(--min-sqnr \d+)` leaves", worst_db, 10.0),
    "dominant layers in float": Promise(QUANTIZED, r"in float: `([^`]*)`", worst_db, 1.0),
    "half precision for a float32 rest": Promise(
        "quantize float.onnx --calib-data data.npz --nodes-to-exclude block1* --high-precision-dtype fp32 -o low.onnx",
        r"`(--high-precision-dtype fp16)` converts the float32 nodes",
        in_half_precision,
        0.3,
    ),
    "fixes of several models": Promise(
        "validate bad.onnx bad2.onnx bias.onnx", r"safe edits \((--fix --in-place)\)", sound, 3
    ),
}


@pytest.mark.slow(reason="follows advice, and measures before and after")
@pytest.mark.parametrize("name", PROMISES)
def test_what_a_report_advises_is_achieved(name: str, stock: Path, tmp_path: Path):
    promise, folder = PROMISES[name], tmp_path / "here"
    shutil.copytree(stock, folder)

    def measured(*words: str) -> float:
        return promise.figure(json.loads(qdqtool(*words, "--output-format", "json", cwd=folder).out))

    words = shlex.split(promise.words)
    advised = re.search(promise.advice, " ".join(qdqtool(*words, cwd=folder).out.split()))
    assert advised is not None
    options = shlex.split(advised[1])
    before = measured(*words)
    if "--fix" in options:  # what was written is measured by the command that advised it
        assert qdqtool(*words, *options, cwd=folder).code == 0
        after = measured(*words)
    else:
        after = measured(*words, *options)
    assert after >= before + promise.least


def follow(text: str, failed: list[str], case: Case, folder: Path, number: int) -> None:
    """Paste one piece of advice: a command of ours, another command, or options for the command that failed."""
    words = shlex.split(text)
    if words[0] == "qdqtool":
        assert exit_code_of(words[1:], folder) in case.then
    elif not words[0].startswith("-"):
        # Whoever pastes it has the environment of qdqtool active.
        words[0] = sys.executable if words[0] == "python" else words[0]
        subprocess.run(words, cwd=folder, check=True)
        assert exit_code_of(failed, folder) in case.then
    elif number in case.of:
        assert exit_code_of([*shlex.split(case.of[number]), *words], folder) == 0
        assert exit_code_of(failed, folder) in case.then
    else:
        assert exit_code_of([*failed, *words, *shlex.split(case.adds.get(number, ""))], folder) in case.then


@functools.cache
def hints() -> tuple[tuple[str, str], ...]:
    """Every hint of the source, and where it is; what is filled in is written as {}."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{value.lineno}", text)
        for path in sorted((ROOT / "qdqtool").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for value in advice_of(node)
        for text in texts(value)
    )


def advice_of(node: ast.AST) -> Iterator[ast.expr]:
    """The values that are hints: arguments and variables of that name, and what functions of that name return."""
    if isinstance(node, ast.keyword):
        yield from [node.value] if node.arg == "hint" else []
    elif isinstance(node, ast.Assign):
        yield from [node.value] if any("hint" in ast.unparse(each).lower() for each in node.targets) else []
    elif isinstance(node, ast.FunctionDef) and node.name.endswith("hint"):
        yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None)


def texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from (*texts(value.body), *texts(value.orelse))
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "either":
        yield from (text for argument in value.args for text in texts(argument))
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in value.values)


def test_every_hint_with_something_to_paste_is_tried():
    tried = [case.says for case in CASES.values()]
    known = [*tried, *ELSEWHERE]
    forgotten = [
        f"{place}: {text}" for place, text in hints() if "`" in text and not any(part in text for part in known)
    ]
    assert forgotten == []
    assert [says for says in tried if not any(says in text for _, text in hints())] == []


OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z-]+ [A-Z{]")


def test_what_can_be_pasted_stands_between_backticks():
    bare = [f"{place}: {text}" for place, text in hints() if OPTION.search(PASTED.sub("", text))]
    assert bare == []


def test_what_is_to_be_installed_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[<>=;\s]", requirement)[0] for requirement in wanted}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "qdqtool").rglob("*.py")]
    installed = {name for text in sources for name in re.findall(r"pip install ([a-z][\w-]*)", text)}

    assert len(installed) >= 4
    assert installed <= names
    assert project["name"] not in installed
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert not any(f"pip install '{project['name']}[" in page.read_text(encoding="utf-8") for page in pages)
