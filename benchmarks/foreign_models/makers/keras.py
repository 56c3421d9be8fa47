"""Keras: quantization-aware training, and integer TensorFlow Lite files, both through tf2onnx."""

import os
from typing import Any

os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")

import numpy as np
import tensorflow as tf
import tf2onnx

from benchmarks.foreign_models.samples import CLASSES, SEED, SIZE, Arrays, Modes, Sample
from benchmarks.networks import network

SHAPE = (SIZE, SIZE, 3)
OPSET = 17


def _inputs(random: np.random.Generator) -> Arrays:
    """Return one picture with its channels last."""
    return {"image": network.image(SIZE)(random)["image"].transpose(0, 2, 3, 1).copy()}


def _network() -> Any:
    """Return the convolutional network of the others, as Keras has it."""
    tf.keras.utils.set_random_seed(SEED)
    layers = tf.keras.layers

    def conv(x: Any, filters: int, kernel: int = 3, *, relu: bool = True) -> Any:
        x = layers.BatchNormalization()(layers.Conv2D(filters, kernel, padding="same", use_bias=False)(x))
        return layers.ReLU()(x) if relu else x

    image = layers.Input(SHAPE, batch_size=1, name="image")
    x = layers.MaxPooling2D()(conv(image, 32))
    x = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)))
    x = conv(x, 64, 1)
    x = layers.ReLU()(layers.Add()([conv(conv(x, 64), 64, relu=False), x]))
    scores = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(image, scores)


def _warmed(model: Any, sample: Sample, *, seen: int) -> Any:
    """Run the model as in training, which moves statistics and ranges, and leave the weights as they are."""
    batch = np.concatenate([each["image"] for each in sample.calibration()])
    for _ in range(seen):
        for image in batch:
            model(image[None], training=True)
    return model


def _write_float(model: Any, sample: Sample) -> None:
    _write(model, sample.float_path)


def _write(model: Any, path: Any, opset: int = OPSET) -> None:
    signature = [tf.TensorSpec((1, *SHAPE), tf.float32, name="image")]
    tf2onnx.convert.from_keras(model, signature, opset=opset, output_path=str(path))


def _start(sample: Sample) -> Any:
    sample.write_data(_inputs)
    model = _warmed(_network(), sample, seen=40)
    _write_float(model, sample)
    return model


def _trained(sample: Sample) -> None:
    import tensorflow_model_optimization as tfmot

    model = _warmed(tfmot.quantization.keras.quantize_model(_start(sample)), sample, seen=20)
    _write(model, sample.path)


def _trained_blocks(sample: Sample) -> None:
    """Quantize the dense layer alone, by annotation."""
    import tensorflow_model_optimization as tfmot

    keras = tfmot.quantization.keras

    def annotate(layer: Any) -> Any:
        return keras.quantize_annotate_layer(layer) if isinstance(layer, tf.keras.layers.Dense) else layer

    annotated = tf.keras.models.clone_model(source := _start(sample), clone_function=annotate)
    annotated.set_weights(source.get_weights())
    _write(_warmed(keras.quantize_apply(annotated), sample, seen=20), sample.path)


def _lite(*, per_channel: bool = True, weights_only: bool = False) -> Any:
    def write(sample: Sample) -> None:
        converter = tf.lite.TFLiteConverter.from_keras_model(_start(sample))
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if not weights_only:
            converter.representative_dataset = lambda: ([each["image"]] for each in sample.calibration())
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter._experimental_disable_per_channel = not per_channel  # noqa: SLF001
        path = sample.path.with_suffix(".tflite")
        path.write_bytes(converter.convert())
        tf2onnx.convert.from_tflite(str(path), opset=OPSET, output_path=str(sample.path))
        path.unlink()

    return write


MODES: Modes = {
    "qat_conv": ("keras", _trained),
    "qat_dense_alone": ("keras", _trained_blocks),
    "tflite_conv": ("keras", _lite()),
    "tflite_conv_per_tensor": ("keras", _lite(per_channel=False)),
    "tflite_dynamic": ("keras", _lite(weights_only=True)),
}
"""The network and what writes its model, by mode."""
