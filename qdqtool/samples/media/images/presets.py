"""Named preprocessings of images, each as a library of the training side defines it."""

from collections.abc import Mapping
from dataclasses import fields, replace

from qdqtool.errors import ArgumentError
from qdqtool.registry import suggestion
from qdqtool.samples.media.images.options import ImageOptions

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
"""The presets by name. What depends on the model, such as the size, is None."""


def with_preset(options: ImageOptions) -> ImageOptions:
    """Return the options with what the preset gives where they give nothing.

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
