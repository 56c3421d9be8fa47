"""Writes the float models of the torch networks.

python -m benchmarks.foreign_models.floats FOLDER
"""

import sys
from pathlib import Path

from benchmarks.foreign_models import networks
from benchmarks.foreign_models.makers import torch_modules
from benchmarks.foreign_models.samples import FLOAT, SAMPLES, Sample


def main(folder: Path) -> None:
    """Write ``FOLDER/float/NETWORK.onnx`` for each network."""
    (folder / FLOAT).mkdir(parents=True, exist_ok=True)
    for name, make in SAMPLES.items():
        sample = Sample(name, folder / FLOAT / f"{name}.onnx")
        sample.write_data(make)
        torch_modules.export(networks.make(name), sample)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
