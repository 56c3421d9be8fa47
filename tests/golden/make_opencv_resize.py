"""Make ``opencv_resize.npz``: small images and what OpenCV's ``cv2.resize`` with INTER_LINEAR makes of them.

OpenCV is no dependency of the tests; run this in an environment that has it: ``pip install opencv-python-headless``.
"""

from pathlib import Path

import cv2
import numpy as np

SIZES = (((48, 64), (32, 32)), ((20, 13), (7, 9)), ((9, 31), (9, 10)), ((24, 18), (12, 9)), ((5, 7), (11, 16)))
"""Heights and widths before and after; the last one grows."""

rng = np.random.default_rng(0)
arrays = {}
for number, (before, after) in enumerate(SIZES):
    for kind, channels in (("rgb", (3,)), ("grey", ())):
        image = rng.integers(0, 256, (*before, *channels), dtype=np.uint8)
        arrays[f"{number}_{kind}_given"] = image
        arrays[f"{number}_{kind}_expected"] = cv2.resize(image, after[::-1], interpolation=cv2.INTER_LINEAR)
np.savez_compressed(Path(__file__).with_name("opencv_resize.npz"), **arrays)
print(f"OpenCV {cv2.__version__}, {len(arrays)} arrays")
