"""The folders that the pages take for granted: the files that their commands and scripts name."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

from qdqtool.linting import rules
from support import custom_ops
from support.code_blocks import blocks_of
from support.command import exit_code_of
from support.contrib_models import encoder, encoder_data, fused, genai_data, genai_decoder
from support.engine_models import FP8, ROWS, Net
from support.networks import Network
from support.paths import ROOT
from support.pictures import picture, save_picture
from support.plugin_models import swirl_model
from support.sounds import noise, save_sound, sound_net
from support.texts import save_lines, save_tokenizer, text_net

SAMPLES = ROOT / "sample_models"
DIGITS = SAMPLES / "digits_cnn"
TRTEXEC = ROOT / "tests" / "engines" / "build" / "data" / "trtexec"
NO_GPU = "it needs a GPU"


@dataclass(frozen=True, slots=True)
class Folder:
    """What a page takes for granted.

    Attributes:
        files: Files of the sample models, by the name that the page gives them.
        make: Makes the other files.
        names: What its scripts take for granted.
        not_run: Beginnings of commands and scripts that are not run, with the reason.
        builds: Whether it takes TensorRT for RTX.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    make: Callable[[Path], None] = lambda _folder: None
    names: Mapping[str, object] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    builds: bool = False

    def lay_out(self, folder: Path) -> None:
        """Put the files into a folder."""
        (folder / "sample_models").symlink_to(SAMPLES)
        for name, source in self.files.items():
            if source.suffix == ".npz" and source.name != "scales.npz":
                copy_rows(source, folder / name, SAMPLES_ENOUGH)
            else:
                shutil.copy(source, folder / name)
        self.make(folder)


FLOAT = {"model.onnx": DIGITS / "model.onnx"}
DATA = dict.fromkeys(("calibration.npz", "data.npz", "samples.npz"), DIGITS / "calibration.npz")
LABELLED = dict.fromkeys(("test.npz", "images.npz", "other.npz"), DIGITS / "test.npz")
SAMPLES_ENOUGH = 128
COMMON = {**FLOAT, **DATA, **LABELLED}


def copy_rows(source: Path, path: Path, count: int) -> None:
    """Copy the first rows of each array of a file."""
    with np.load(source) as data:
        np.savez(path, **{name: array[:count] for name, array in data.items()})


def run(folder: Path, line: str) -> None:
    """Run a command that makes files."""
    assert exit_code_of(line.split(), folder) == 0, line


def conv_net(name: str, size: str | int) -> onnx.ModelProto:
    """A network of two convolutions whose input of three channels has this name and height and width."""
    net = Network()
    net.relu(net.conv(name, "first", (16, 3, 3, 3), stride=2))
    net.relu(net.conv("first_relu", "second", (16, 16, 3, 3), stride=2))
    net.op("Flatten", [net.op("GlobalAveragePool", ["second_relu"], "pooled")], "flat")
    net.op("Gemm", ["flat", net.weight("head", (16, 2), 16)], "y")
    model = net.model({name: (1, 3, 64, 64)})
    del model.graph.value_info[:]
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, extent in zip(dims, ("batch", 3, size, size), strict=True):
        dim.CopyFrom(
            onnx.TensorShapeProto.Dimension(**{"dim_param" if isinstance(extent, str) else "dim_value": extent})
        )
    model.graph.output[0].type.tensor_type.shape.dim[0].CopyFrom(dims[0])
    return model


def custom_operators(folder: Path) -> None:
    """Models with an operator of a library, and with one that a plugin has."""
    shutil.copy(custom_ops.library(), folder / "operators.so")
    onnx.save(custom_ops.between(), folder / "model.onnx")
    onnx.save(custom_ops.between("Twice", "acme", ("b",)), folder / "plugin.onnx")
    samples = np.random.default_rng(6).normal(size=(SAMPLES_ENOUGH, 4, 16)).astype(np.float32)
    np.savez(folder / "calibration.npz", x=samples)


def build(folder: Path) -> None:
    run(folder, "quantize model.onnx --calib-data calibration.npz -o model.int8.onnx")
    onnx.save(conv_net("images", "side"), folder / "dynamic.onnx")


def quantize(folder: Path) -> None:
    """Give the last block of the network the name of a head."""
    model = onnx.load(folder / "model.onnx")
    for node in model.graph.node:
        node.name = node.name.replace("block3", "head_block3")
    onnx.save(model, folder / "model.onnx")


def check(folder: Path) -> None:
    run(folder, "quantize float.onnx --calib-data calibration.npz -o model.onnx")
    run(folder, "check model.onnx --data test.npz --save-outputs engine.npz")
    run(folder, "quantize lm.onnx --calib-data lm.npz --calibration-method max -o lm.int8.onnx")
    copy_rows(SAMPLES / "char_lm/test.npz", folder / "text.npz", 32)
    for name in ("before.onnx", "after.onnx"):
        shutil.copy(folder / "model.onnx", folder / name)


def swirls(folder: Path) -> None:
    onnx.save(swirl_model(stand_in=False), folder / "detector.onnx")
    onnx.save(swirl_model(), folder / "model.onnx")
    np.savez(folder / "images.npz", x=np.random.default_rng(0).normal(size=(16, 3, 8, 8)).astype(np.float32))


def two_models(folder: Path) -> None:
    (folder / "models").mkdir()
    run(folder, "quantize model.onnx --calib-data calibration.npz -o models/detector.int8.onnx")
    for name in ("models/detector.int8.simplified.onnx", "model.int8.onnx", "before.onnx", "after.onnx"):
        shutil.copy(folder / "models/detector.int8.onnx", folder / name)
    shutil.copy(folder / "model.onnx", folder / "models/detector.onnx")
    (folder / "data").mkdir()
    shutil.copy(folder / "calibration.npz", folder / "data/detector.npz")
    table = {"model": "model.int8.onnx", "baseline": "model.onnx", "data": "calibration.npz"}
    lines = ["[[check]]", *(f'{key} = "{value}"' for key, value in table.items()), "min-sqnr = 20"]
    (folder / "qdqtool.toml").write_text("\n".join(lines))


class Samples(CalibrationDataReader):
    """The first samples of a file, as ONNX Runtime's quantizer reads them."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as data:
            self.left = iter([{"image": image[np.newaxis]} for image in data["image"][:32]])

    def get_next(self) -> dict[str, np.ndarray]:
        """Return the next sample, or None."""
        return next(self.left, None)


def other_tools(folder: Path) -> None:
    for name, form in (("qop.onnx", QuantFormat.QOperator), ("ort.onnx", QuantFormat.QDQ)):
        quantize_static(folder / "model.onnx", folder / name, Samples(folder / "calibration.npz"), quant_format=form)
    quantize_dynamic(SAMPLES / "digits_transformer/model.onnx", folder / "dynamic.onnx")
    run(folder, "quantize model.onnx --calib-data calibration.npz -o model.int8.onnx")
    run(folder, "calibrate model.onnx --calib-data calibration.npz -o ranges.json")
    run(folder, "convert-ranges ranges.json --to tensorrt-cache -o calibration.cache")


def from_trtexec(folder: Path) -> None:
    run(folder, "calibrate model.onnx --calib-data calibration.npz -o ranges.json")
    run(folder, "convert-ranges ranges.json --to tensorrt-cache -o calibration.cache")
    (folder / "build.txt").write_text("trtexec --onnx=model.onnx --fp16 --saveEngine=model.engine\n", encoding="utf-8")


def contrib_operators(folder: Path) -> None:
    onnx.save(fused(encoder(), "bert"), folder / "fused.onnx")
    np.savez(folder / "calib.npz", **encoder_data())
    onnx.save(genai_decoder(), folder / "genai.onnx")
    np.savez(folder / "genai.npz", **genai_data())


def samples(folder: Path) -> None:
    """Make models that take images, sound and text, with files for each."""
    onnx.save(conv_net("x", 64), folder / "resnet.onnx")
    onnx.save(conv_net("x", "side"), folder / "yolo.onnx")
    for number in range(4):
        save_picture(folder / f"photos/{number % 2}/{number}.png", picture(80, 90, number))
    onnx.save(sound_net(), folder / "keywords.onnx")
    for number in range(20):
        save_sound(folder / f"sounds/{number}.wav", noise(140, seed=number))
    onnx.save(text_net(), folder / "bert.onnx")
    save_tokenizer(folder / "tokenizer.json")
    save_lines(folder / "lines.txt")
    block = next(each for each in blocks_of(ROOT / "docs/how-to/data.md") if "def load_data" in each.text)
    (folder / "samples.py").write_text(block.text, encoding="utf-8")


def refusals(folder: Path) -> None:
    onnx.save(rules.get("QL301").INVALID[0].model(), folder / "bias.onnx")
    net = Net()
    net.op("MatMul", [net.activation("x"), net.weight("w", (64, 64), FP8)], "y")
    onnx.save(net.model(ROWS), folder / "mixed.onnx")


def scale_out(folder: Path) -> None:
    """Have what the command that is not run writes."""
    run(folder, "calibrate model.onnx --calib-data data.npz -o ranges.json")


def accuracy(folder: Path) -> None:
    shutil.copy(DIGITS / "test.npz", folder / "labelled.npz")  # a loss of 1 % shows on 500 samples


def validate(folder: Path) -> None:
    (folder / "models").mkdir()
    run(folder, "quantize float.onnx --calib-data calibration.npz -o models/one.onnx")
    for name in ("model.onnx", "models/two.onnx"):
        onnx.save(rules.get("QL301").INVALID[0].model(), folder / name)
    save_graph(SCATTER, 18, folder / "scatter.onnx")
    save_graph(FP4, 23, folder / "fp4.onnx")


SCATTER = """g (float[2,3] x) => (float[2,3] y) <int64[1,1] i = {0}, float[1,3] v = {1, 2, 3}> {
    y = ScatterND <reduction = "add"> (x, i, v)
}"""
FP4 = """g (float[1,2] x) => (float[1,2] y) <float s = {0.1}, float[2] ones = {1, 1}> {
    [norm] n = RMSNormalization (x, ones)
    [x_quantize] q = QuantizeLinear <output_dtype = 23> (n, s)
    y = DequantizeLinear (q, s)
}"""


def save_graph(text: str, opset: int, path: Path) -> None:
    """Write a model of a graph in ONNX's text form."""
    graph = onnx.parser.parse_graph(text)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11), path)


FOLDERS: Mapping[str, Folder] = {
    "README.md": Folder(COMMON, builds=True),
    "docs/index.md": Folder(COMMON, builds=True),
    "docs/how-to/accuracy.md": Folder(
        {**COMMON, "lm.onnx": SAMPLES / "digits_transformer/model.onnx",
         "text.npz": SAMPLES / "digits_transformer/calibration.npz"},
        accuracy,
    ),
    "docs/how-to/check.md": Folder(
        {**COMMON, "float.onnx": DIGITS / "model.onnx", "lm.onnx": SAMPLES / "char_lm/model.onnx",
         "lm.npz": SAMPLES / "char_lm/calibration.npz"}, check,
    ),
    "docs/how-to/ci.md": Folder(COMMON, two_models),
    "docs/how-to/other-tools.md": Folder(
        {**COMMON, "calib.npz": SAMPLES / "digits_transformer/calibration.npz"}, other_tools
    ),
    "docs/how-to/contrib-operators.md": Folder({}, contrib_operators, builds=True),
    "docs/how-to/scale-out.md": Folder(
        COMMON,
        scale_out,
        not_run={"qdqtool calibrate model.onnx --calib-data data.npz --dask tcp": "there is no such cluster"},
    ),
    "docs/developers/refusals.md": Folder({}, refusals, builds=True),
    "docs/how-to/build.md": Folder(
        {**FLOAT, **DATA},
        build,
        not_run={
            "qdqtool run": NO_GPU,
            "qdqtool check model.int8.onnx --data images.npz --engine": NO_GPU,
            "qdqtool bench": NO_GPU,
            "qdqtool build model.int8.onnx -o model.engine --sign": "ssh-keygen above asks for a passphrase",
            "qdqtool verify-engine model.engine --public-key": "the key was not made",
        },
        builds=True,
    ),
    "docs/how-to/data.md": Folder(COMMON, samples),
    "docs/how-to/engine-times.md": Folder(
        {f"{kind}.json": TRTEXEC / f"8.{kind}.json" for kind in ("layers", "profile")},
        not_run={"qdqtool inspect layers.json --profile profile.json --model": "the model of these layers is not here"},
    ),
    "docs/how-to/failures.md": Folder(
        {},
        refusals,
        not_run={
            "qdqtool reduce model.int8.onnx": "the model is the reader's",
            "qdqtool reduce model.onnx": "likewise",
        },
        builds=True,
    ),
    "docs/how-to/from-trtexec.md": Folder(COMMON, from_trtexec, builds=True),
    "docs/how-to/custom-operators.md": Folder(make=custom_operators),
    "docs/how-to/half-precision.md": Folder(COMMON, build, builds=True),
    "docs/how-to/jetson.md": Folder(COMMON),
    "docs/how-to/plugins.md": Folder(
        {}, swirls, not_run={"qdqtool build model.int8.onnx -o model.engine --backend tensorrt": NO_GPU}, builds=True
    ),
    "docs/how-to/quantize.md": Folder(COMMON, quantize, builds=True),
    "docs/how-to/validate.md": Folder(
        {"float.onnx": DIGITS / "model.onnx", **DATA}, validate, {"node": onnx.NodeProto()}, builds=True
    ),
    "docs/reference/files.md": Folder(COMMON, two_models, builds=True),
    "docs/reference/python.md": Folder(),
    "docs/start/tutorial.md": Folder(builds=True),
}  # fmt: skip
"""By page; a page without commands of qdqtool and without Python needs none."""
