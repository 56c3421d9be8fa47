"""The same samples in every layout of data files."""

import textwrap
from pathlib import Path

import numpy as np
from onnx import numpy_helper

from qdqtool.samples.signature import InputSpec

F32 = np.dtype(np.float32)
X = (InputSpec("x", F32, ("batch", 2, 3)),)
XY = (*X, InputSpec("ids", np.dtype(np.int64), ("batch", None)))


def array(samples: int = 5) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(samples, 2, 3)).astype(np.float32)


def save_npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def save_npy(path: Path, x: np.ndarray) -> Path:
    np.save(path, x)
    return path


def save_folder(folder: Path, x: np.ndarray) -> Path:
    folder.mkdir()
    for index, sample in enumerate(x):
        np.savez(folder / f"s{index}.npz", x=sample[None])
    return folder


def save_npy_folder(folder: Path, x: np.ndarray) -> Path:
    folder.mkdir()
    for index, sample in enumerate(x):
        np.save(folder / f"s{index}.npy", sample[None])
    return folder


def save_sets(folder: Path, x: np.ndarray) -> Path:
    for index, sample in enumerate(x):
        inner = folder / f"test_data_set_{index}"
        inner.mkdir(parents=True)
        (inner / "input_0.pb").write_bytes(numpy_helper.from_array(sample[None]).SerializeToString())
    return folder


def save_script(folder: Path, body: str, name: str = "load.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(body))
    return path


def save_loader(folder: Path, x: np.ndarray) -> Path:
    np.save(folder / "beside.npy", x)
    body = """
        import numpy, pathlib
        def load_data():
            for sample in numpy.load(pathlib.Path(__file__).with_name("beside.npy")):
                yield {"x": sample[None]}
    """
    return save_script(folder, body)


LAYOUTS = {
    "npz": lambda folder, x: save_npz(folder / "d.npz", x=x),
    "npz, column major": lambda folder, x: save_npz(folder / "d.npz", x=np.asfortranarray(x)),
    "npy": lambda folder, x: save_npy(folder / "d.npy", x),
    "folder": lambda folder, x: save_folder(folder / "d", x),
    "folder of npy": lambda folder, x: save_npy_folder(folder / "d", x),
    "test data sets": lambda folder, x: save_sets(folder / "d", x),
    "script": save_loader,
}


def layout(kind: str, folder: Path, x: np.ndarray) -> Path:
    """``x`` as a file or folder of that kind, which a model with the inputs :data:`X` can be fed with."""
    return LAYOUTS[kind](folder, x)
