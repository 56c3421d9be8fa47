"""The preprocessing of any kind of file, as ranges files, reports, models and manifests record it."""

from qdqtool.samples.media.images.options import ImagePreprocessing
from qdqtool.samples.media.sound.options import SoundPreprocessing
from qdqtool.samples.media.text.options import TextPreprocessing

Preprocessing = ImagePreprocessing | SoundPreprocessing | TextPreprocessing
"""How files became samples. In JSON the key ``kind`` tells them apart."""
