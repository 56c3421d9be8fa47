"""The baseline: a plain ONNX Runtime session over the data, one sample a run: ``plain.py MODEL DATA.npz SAMPLES``."""

import sys

import numpy as np
import onnxruntime


def main() -> None:
    """Run every sample and drop what comes out."""
    model, data, samples = sys.argv[1], sys.argv[2], int(sys.argv[3])
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with np.load(data) as stored:
        arrays = {name: stored[name] for name in stored.files}
    ranks = {value.name: len(value.shape) for value in session.get_inputs()}
    for index in range(samples):
        session.run(None, {name: sample(array, index, ranks[name]) for name, array in arrays.items()})


def sample(array, index, rank):  # noqa: ANN001, ANN201
    """Row ``index`` as one input: with a batch of one, or as it is where each row holds a complete input."""
    return np.asarray(array[index]) if array.ndim > rank else array[index : index + 1]


if __name__ == "__main__":
    main()
