"""Folders of sound files, also nested ones, and single sound files; each window of a file is one sample."""

from collections.abc import Sequence
from pathlib import Path

from qdqtool.samples.media.files import SOUND
from qdqtool.samples.media.sound.resolve import resolve, sound_input
from qdqtool.samples.media.sound.samples import SoundSamples, require_soundfile
from qdqtool.samples.options import ReadOptions
from qdqtool.samples.readers import image_folder, numpy_folder, test_data_set
from qdqtool.samples.signature import InputSpec

ACCEPTS = f"folder of sound files ({', '.join(SOUND.common)})"
HOLDS = "sound"
USES = frozenset({"sound", "labels"})


def accepts(path: Path) -> bool:
    """Return whether ``path`` is a sound file, or a folder with sound files and without arrays or images."""
    if path.is_file():
        return SOUND.names(path)
    others = (numpy_folder, test_data_set, image_folder)
    return path.is_dir() and not any(other.accepts(path) for other in others) and SOUND.is_in(path)


def read_with(path: Path, specs: Sequence[InputSpec], options: ReadOptions) -> SoundSamples:
    """Read the sound files of a folder. Each file is decoded when its samples are read."""
    taken = sound_input(specs, str(path))
    how = resolve(options.of_sound(), taken, str(path))
    require_soundfile()
    return SoundSamples(root=path, files=SOUND.files(path), taken=taken, preprocessing=how, labels_file=options.labels)
