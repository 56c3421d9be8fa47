"""The options of data: the source of samples, and the preprocessing of files that do not hold arrays."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qdqtool.errors import UsageError
from qdqtool.options import Kind, Speech, Values, declared, file, integer, option, output
from qdqtool.samples.input_shapes import parse_numbers, parse_shapes
from qdqtool.samples.media_options import IMAGES, ImageOptions, SoundOptions, TextOptions

if TYPE_CHECKING:
    from qdqtool.samples.preprocessing import Preprocessing

Requested = TypeVar("Requested", ImageOptions, SoundOptions)


def named_shapes(given: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return shapes by input name, each as a tuple."""
    return {name: tuple(shape) for name, shape in given.items()}


def named_values(given: Mapping[str, float | Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Return values by input name, each as a tuple; a single number becomes a tuple with one element."""
    return {name: (float(value),) if isinstance(value, int | float) else tuple(value) for name, value in given.items()}


SHAPES = Kind(
    form="text",
    keyword="Shapes",
    metavar="NAME:1x3x320x320",
    read=parse_shapes,
    take=named_shapes,
    is_repeated=True,
    offers="input_names",
    takes_commas=True,
)
VALUES = replace(SHAPES, keyword="Values", metavar="NAME:16000", read=parse_numbers, take=named_values)
SEVERAL = "separate several with commas, or repeat the option."
"""The end of help texts of options with shapes or values."""
DATA = file("DATA", "DataLike")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The preprocessing of files that do not hold arrays.

    Attributes:
        images: The preprocessing of images.
        sound: The preprocessing of sound.
        text: The preprocessing of text.
        labels: A CSV file with the label of each image or sound file; None to use folder names as labels.
        preview: The PNG file to write, which shows the first images after preprocessing; None to write nothing.
        recorded: The preprocessing that a quantized model or a ranges file records, for options that the user does not
            set.
    """

    images: ImageOptions = field(default_factory=ImageOptions)
    labels: Path | None = option(
        None,
        "Labels of images or sound files, rows FILE,LABEL.  [default: the names of their folders]",
        file("FILE.csv"),
        section=IMAGES,
    )
    preview: Path | None = option(
        None,
        "Write a picture of the first images after preprocessing.",
        output("FILE.png", is_binary=True),
        section=IMAGES,
    )
    sound: SoundOptions = field(default_factory=SoundOptions)
    text: TextOptions = field(default_factory=TextOptions)
    recorded: "Preprocessing | None" = None

    def of_images(self) -> ImageOptions:
        """Return the preprocessing of images. If a preset is requested, recorded values are not used."""
        return self.images if self.images.preset is not None else _filled(self.images, self.recorded, "images")

    def of_sound(self) -> SoundOptions:
        """Return the preprocessing of sound."""
        return _filled(self.sound, self.recorded, "sound")

    def refuse_all_but(self, used: Collection[str], source: object, holds: str) -> None:
        """Refuse options that do not apply to the data.

        Raises:
            UsageError: An option outside ``used`` is given.
        """
        given = [
            said for name, said in _SAID.items() if name not in used and getattr(self, name) != getattr(_NOTHING, name)
        ]
        if given:
            raise UsageError(
                f"{source} holds {holds}: {' and '.join(given)} cannot be used",
                hint="leave these options out, or name the data that they apply to",
            )


def _filled(requested: Requested, recorded: "Preprocessing | None", kind: str) -> Requested:
    """Return options in which recorded values (of the same kind) replace options that were not requested."""
    if recorded is None or recorded.kind != kind:
        return requested
    absent = (each.name for each in fields(requested) if getattr(requested, each.name) is None)
    return replace(requested, **{name: getattr(recorded, name) for name in absent if hasattr(recorded, name)})


_NOTHING = ReadOptions()
_SAID: Mapping[str, str] = {
    "images": "the options of images",
    "sound": "the options of sound",
    "text": "the options of text",
    "labels": "--labels",
    "preview": "--preview",
}


MEDIA = tuple(each.name for each in declared(ReadOptions))
OF_CALIBRATION = ("labels", "preview")
"""The options of files that do not apply to validation data."""
_NEEDED = {"image": "a folder of images", "sound": "a folder of sound files", "text": "a text file"}


def require_data(values: Values, has_data: bool, said: Speech, names: Iterable[str] = MEDIA) -> None:
    """Require data if an option for files without arrays is given.

    Raises:
        UsageError: An option is given, and there is no data.
    """
    given = next((name for name in names if name in values), None)
    if given is not None and not has_data:
        kind = "text" if given == "tokenizer" else given.partition("_")[0]
        raise UsageError(
            f"{said(given)} needs {_NEEDED.get(kind, _NEEDED['image'])}, and no such data is given",
            hint=said.either("name it with --calib-data, which is the same as --data", "pass data"),
        )


SAMPLES = "Use only this many samples."
CONSTANT_DATA = "Use samples that hold one value throughout, such as zeros; they are refused otherwise."


_data = partial(option, section="Data")


@dataclass(init=False, repr=False, eq=False)
class CalibrationData:
    """The samples that a model is calibrated on."""

    calib_data: Path | None = _data(
        None,
        "Calibration data: .npz, .npy, a folder of either, of images or of sound files, a .txt file, ONNX "
        "test_data_set_* folders, or SCRIPT.py[:func].",
        DATA,
        flags=("--calib-data", "--data"),
        only="command line",
    )
    allow_constant_data: bool = _data(False, CONSTANT_DATA)
    random_calibration: bool = _data(
        False, "Calibrate on random inputs, to try a pipeline out; the model's metadata records it."
    )
    seed: int | None = _data(None, "Seed of --random-calibration.  [default: 0]", integer(minimum=0))
    samples: int | None = _data(None, f"{SAMPLES}  [default: all]", integer(minimum=1))
    reading: ReadOptions = field(default_factory=ReadOptions)


FILES = (
    "Samples: .npz, .npy, a folder of either, of images, of sound files or of ONNX test data, a .txt file, or "
    "script.py:func."
)


def samples_option(about: str, section: str = "") -> Any:
    """Return the declaration of the option for samples, which are an argument in Python."""
    return option(None, about, DATA, flags=("--data", "--calib-data"), section=section, only="command line")


@dataclass(init=False, repr=False, eq=False)
class MeasuredData:
    """Options for the samples that a model runs on: files, or random inputs."""

    data: Any = samples_option(f"{FILES} Default: random inputs.", "Data")
    allow_constant_data: bool = option(False, CONSTANT_DATA, section="Data")
    seed: int = option(0, "Seed of random inputs.", integer(minimum=0), section="Data")
    samples: int | None = option(
        None, f"{SAMPLES}  [default: all, or 4 random ones]", integer(minimum=1), section="Data"
    )
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {}, f"Fix the shape of an input; {SEVERAL}", SHAPES, section="Data"
    )
    input_values: Mapping[str, tuple[float, ...]] = option(
        {},
        f"Give an input the same value in every sample (a quantized model records its own); {SEVERAL}",
        VALUES,
        section="Data",
    )
    reading: ReadOptions = field(default_factory=ReadOptions)
