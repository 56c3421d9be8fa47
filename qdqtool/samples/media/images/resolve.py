"""Complete the preprocessing options of images from the shape of the model's input; never guess missing options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.registry import suggestion
from qdqtool.samples.media.files import SCRIPT, only_input
from qdqtool.samples.media_options import Channels, ImageOptions, Layout
from qdqtool.samples.preprocessing import ImagePreprocessing
from qdqtool.samples.signature import Dim, InputSpec

PRESETS: Mapping[str, ImageOptions] = {
    # torchvision.transforms._presets.ImageClassification, on a PIL image.
    "imagenet": ImageOptions(
        resize="crop",
        interpolation="bilinear",
        crop_ratio=0.875,
        channels="rgb",
        pixel_range="0..1",
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),
    # CLIP's own preprocess, which its descendants keep.
    "clip": ImageOptions(
        resize="crop",
        interpolation="bicubic",
        crop_ratio=1.0,
        channels="rgb",
        pixel_range="0..1",
        mean=(0.48145466, 0.4578275, 0.40821073),
        std=(0.26862954, 0.26130258, 0.27577711),
    ),
    # ultralytics.data.augment.LetterBox(auto=False), then division by 255.
    "yolo": ImageOptions(
        resize="letterbox",
        interpolation="opencv-bilinear",
        pad_color=(114, 114, 114),
        channels="rgb",
        pixel_range="0..1",
    ),
    # cv2.dnn.blobFromImage(image, size=...) with its defaults.
    "opencv": ImageOptions(resize="stretch", interpolation="opencv-bilinear", channels="bgr", pixel_range="0..255"),
    # keras.applications.imagenet_utils.preprocess_input(mode="caffe").
    "caffe": ImageOptions(
        resize="crop",
        interpolation="bilinear",
        crop_ratio=0.875,
        channels="bgr",
        pixel_range="0..255",
        mean=(103.939, 116.779, 123.68),
    ),
    # keras.applications.imagenet_utils.preprocess_input(mode="tf").
    "tensorflow": ImageOptions(resize="stretch", interpolation="bilinear", channels="rgb", pixel_range="-1..1"),
    "unit": ImageOptions(resize="stretch", interpolation="bilinear", channels="rgb", pixel_range="0..1"),
}
"""The presets by name. A field that depends on the model, such as the size, is None."""


def with_preset(options: ImageOptions) -> ImageOptions:
    """Return the options, with None replaced by the values of the preset.

    Raises:
        ArgumentError: The preset is unknown.
    """
    if options.preset is None:
        return options
    if options.preset not in PRESETS:
        raise ArgumentError(
            f"image preset '{options.preset}' is unknown; the presets are {', '.join(PRESETS)}"
            f"{suggestion(options.preset, PRESETS)}"
        )
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    return replace(PRESETS[options.preset], **{name: value for name, value in given.items() if value is not None})


COUNTS = {"rgb": 3, "bgr": 3, "grey": 1}
"""Number of channels for each channel order."""

NO_PAD = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class ImageInput:
    """An input that accepts images.

    Attributes:
        spec: The input.
        batch: Images in one run, 1 if the batch is dynamic; None if the input has no batch dimension.
    """

    spec: InputSpec
    batch: int | None


def image_input(specs: Sequence[InputSpec], source: str) -> ImageInput:
    """Return the input of a model that images fill; it must be the only input.

    Raises:
        UsageError: The model has no input or several inputs, or the input does not have the shape of an image.
    """
    spec = only_input(specs, f"{source} holds images, which fill")
    if spec.shape is None or len(spec.shape) not in {3, 4}:
        raise UsageError(
            f"{source} holds images, and the model takes {spec}; an input for images has 3 dimensions, or 4 with the "
            "batch",
            hint=SCRIPT,
        )
    return ImageInput(spec, None if len(spec.shape) == 3 else spec.batch)


def resolve(options: ImageOptions, taken: ImageInput, source: str) -> ImagePreprocessing:
    """Return the complete preprocessing of images for an input.

    Size, layout and number of channels come from the input. The resize mode, the channel order and the normalization
    are not visible in a model, so options or a preset must give them.
    """
    full = with_preset(options)
    _require_given(full, taken, source)
    layout = _layout(full, taken)
    channels = _channels(options, full, _axis(taken, layout, "c"), taken)
    assert full.resize is not None
    assert full.pixel_range is not None
    return ImagePreprocessing(
        size=_size(full, taken, layout),
        layout=layout,
        channels=channels,
        resize=full.resize,
        interpolation=full.interpolation or "bilinear",
        crop_ratio=(full.crop_ratio or 1.0) if full.resize == "crop" else None,
        pad_color=(full.pad_color or NO_PAD) if full.resize == "letterbox" else None,
        pixel_range=full.pixel_range,
        mean=_of_each("mean", full.mean, channels, full.preset or options.preset),
        std=_of_each("std", full.std, channels, full.preset or options.preset),
    )


def _require_given(full: ImageOptions, taken: ImageInput, source: str) -> None:
    grey = _counts(taken) == {1}
    named = {
        "--image-resize": full.resize,
        "--image-channels": full.channels or (grey or None),
        "--image-range": full.pixel_range,
    }
    missing = [option for option, value in named.items() if value is None]
    if missing:
        raise UsageError(
            f"{source} holds images, but their preprocessing for input '{taken.spec.name}' is not known: a model does "
            f"not say how it was trained; not given: {', '.join(missing)}",
            hint=f"name a preset, as `--image-preset imagenet`; there are {', '.join(PRESETS)} "
            "(`qdqtool explain data`)",
        )


def _counts(taken: ImageInput) -> set[Dim]:
    """Return the numbers of channels that the shape of the input allows."""
    shape = taken.spec.shape or ()
    return {dim for dim in (shape[-3], shape[-1]) if dim in {1, 3}}


def _layout(options: ImageOptions, taken: ImageInput) -> Layout:
    if options.layout is not None:
        return options.layout
    shape = taken.spec.shape or ()
    first, last = shape[-3] in {1, 3}, shape[-1] in {1, 3}
    if first == last:
        raise UsageError(
            f"the channel axis of input {taken.spec} is not known: "
            + ("two axes could hold channels" if first else "no dimension is 1 or 3"),
            hint="`--image-layout nchw` if channels come before height and width, `--image-layout nhwc` if after",
        )
    return "nchw" if first else "nhwc"


def _axis(taken: ImageInput, layout: Layout, letter: str) -> Dim:
    shape = taken.spec.shape or ()
    return shape[-3:][layout[1:].index(letter)]


def _channels(given: ImageOptions, full: ImageOptions, count: Dim, taken: ImageInput) -> Channels:
    """Return the channel order. For an input with one channel it is grey, unless the user named another order."""
    if count == 1 and given.channels is None:
        return "grey"
    channels = full.channels
    if channels is None:
        raise UsageError(
            "the order of the channels is not given, and the model takes "
            f"{taken.spec} with {count or 'an open number'} of them in this layout",
            hint="give --image-channels, or leave --image-layout out",
        )
    if isinstance(count, int) and count != COUNTS[channels]:
        problem = f"the images have channels {channels}, and the model takes {taken.spec} with {count} of them"
        if count not in {1, 3}:
            raise UsageError(problem, hint="images have 1 or 3 channels; a Python script makes other inputs")
        raise UsageError(
            problem,
            hint="`--image-channels grey`" if count == 1 else "`--image-channels rgb` or `--image-channels bgr`",
        )
    return channels


def _size(options: ImageOptions, taken: ImageInput, layout: Layout) -> tuple[int, int]:
    known = tuple(_axis(taken, layout, letter) for letter in "hw")
    given: tuple[Dim, ...] = options.size or known
    if any(isinstance(dim, int) and dim != wanted for dim, wanted in zip(known, given, strict=True)):
        raise UsageError(
            f"--image-size {given[0]}x{given[1]} contradicts the model, which takes {taken.spec}",
            hint="leave --image-size out: the size is taken from the model",
        )
    height, width = given
    if not isinstance(height, int) or not isinstance(width, int):
        raise UsageError(
            f"the size of the images is not known: the model takes {taken.spec}",
            hint="give height and width: `--image-size 320x320`",
        )
    return height, width


def _of_each(
    name: str, values: tuple[float, ...] | None, channels: Channels, preset: str | None
) -> tuple[float, ...] | None:
    if values is None:
        return None
    count = COUNTS[channels]
    if len(values) == count:
        return values
    if len(values) == 1:
        return values * count
    of = f"preset '{preset}'" if preset else f"--image-{name}"
    raise UsageError(
        f"{of} has {len(values)} numbers as {name}, and the input has {count} channel",
        hint="give the numbers that the network was trained with: `--image-mean 0.45 --image-std 0.22`",
    )
