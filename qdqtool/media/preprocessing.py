"""The preprocessing of any kind of file, as ranges files, reports, models and manifests record it."""

from qdqtool.media.images.options import ImagePreprocessing
from qdqtool.media.sound.options import SoundPreprocessing
from qdqtool.media.text.options import TextPreprocessing

Preprocessing = ImagePreprocessing | SoundPreprocessing | TextPreprocessing
"""How files became samples. In JSON the key ``kind`` tells them apart."""
