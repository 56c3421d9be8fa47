"""Folders of image files, also nested ones, and single image files; each image is one sample."""

from collections.abc import Sequence
from pathlib import Path

from qdqtool.samples.media.files import IMAGE
from qdqtool.samples.media.images.decode import require_pillow
from qdqtool.samples.media.images.resolve import image_input, resolve
from qdqtool.samples.media.images.samples import ImageSamples
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import numpy_folder, test_data_set
from qdqtool.samples.signature import InputSpec

ACCEPTS = f"folder of images ({', '.join(IMAGE.common)}, …)"
HOLDS = "images"
USES = frozenset({"images", "labels", "preview"})


def accepts(path: Path) -> bool:
    """Return whether ``path`` is an image file, or a folder with images and without array files."""
    if path.is_file():
        return IMAGE.names(path)
    return path.is_dir() and not numpy_folder.accepts(path) and not test_data_set.accepts(path) and IMAGE.is_in(path)


def read_with(path: Path, specs: Sequence[InputSpec], options: ReadOptions) -> ImageSamples:
    """Read the images of a folder. Each file is decoded when its sample is read."""
    taken = image_input(specs, str(path))
    how = resolve(options.of_images(), taken, str(path))
    require_pillow()
    return ImageSamples(root=path, files=IMAGE.files(path), taken=taken, preprocessing=how, labels_file=options.labels)
