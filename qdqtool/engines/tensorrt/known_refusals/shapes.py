"""Refusals of shapes: dimensions, values that decide shapes, operands that do not fit."""

from functools import partial

from qdqtool.engines.tensorrt.known_refusals._known import known

_misfit = partial(known, rules="QS014")
ENTRIES = (
    known(
        r"dynamic or shape inputs, but no optimization profile",
        "an input has dynamic dimensions without shapes to build for",
        hint="give --opt-shapes",
    ),
    known(
        r"k(\w+) values for profile \d+ violate shape constraints: (.+?)(?: \(build-time| Condition |$)",
        "the network does not work with its {0} shapes: {1}",
        hint="give shapes that every layer can compute with --min-shapes, --opt-shapes and --max-shapes",
    ),
    known(
        r"Axis input must resolve to a build-time constant|(?:un)?squeeze axis is not a constant",
        "its axes are computed while the model runs; TensorRT needs them when it builds",
        hint="store the axes as an initializer; if they follow from shapes, --input-shapes folds them",
    ),
    known(
        r"Network input (?P<tensor>\S+) is a shape tensor and must have type Int32 or Int64\. Type is (\w+)",
        "shapes are computed from graph input '{0}', which is {1}; TensorRT takes such inputs in int32 or int64",
        hint="make it a constant, `--input-values {0}:VALUE`, or an integer input",
    ),
    known(
        r"isInFlight",
        "TensorRT fails with an internal error on a shape that depends on itself or on values",
        hint="fix the input shapes with --input-shapes, and its inputs with --input-values",
    ),
    known(
        r"Failed to convert ONNX dimensions",
        "a tensor has more than 8 dimensions",
        hint="join some of them with a Reshape when the model is exported",
        rules="QA210",
    ),
    _misfit(
        r"attribute group and the kernel shape misalign with the channel size",
        "its weight does not fit the channels of its input and the attribute group",
        hint="the second dimension of the weight is the number of input channels divided by group",
    ),
    _misfit(
        r"weight input tensor shape for bias not consistent",
        "its bias must have one value for each output channel",
        hint="give the bias the length of the output channels",
    ),
    _misfit(
        r"image size is smaller than filter size",
        "its kernel is larger than the padded input",
        hint="build for larger inputs with --opt-shapes or --input-shapes",
    ),
    _misfit(
        r"For instance/group normalization, the scale is expected to match the output at the channel dimension (\d+)",
        "its scale must have one value for each channel",
        hint="give scale and bias the length of dimension {0} of the input",
    ),
    known(
        r"shape of input starts misaligns with the shape of input axes\. Shape of input starts = (\d+), shape of input "
        r"axes = (\d+)",
        "it has {0} starts but {1} axes",
        hint="give a start and an end for every axis",
        rules="QL312",
    ),
    known(
        r"slope tensor must be unidirectional broadcastable to input tensor",
        "its slope does not broadcast to its input",
        hint="give the slope the shape [channels, 1, 1] for an input [batch, channels, height, width]",
    ),
    known(
        r"reshape changes volume to multiple of original non-zero volume\. Reshaping (\[.*?\]) to (\[.*?\])",
        "it cannot reshape a tensor of shape {0} to {1}",
        hint="multiply matrices: put an Unsqueeze in front of a MatMul with a vector, and a Squeeze behind it",
    ),
    known(
        r"windowSize\)\.nbDims == 2",
        "it pools along one dimension, which TensorRT does not support for this operator",
        hint="add a dimension of length 1 with an Unsqueeze, and remove it behind the node",
    ),
    known(
        r"The rank of operands should be the same adding inputs|number of dimensions should remain the same adding",
        "TensorRT replaces it by nodes that do not accept its types",
        hint="cast its inputs to float32",
    ),
    known(
        r"(\w+) must be an initializer",
        "its input {0} is computed while the model runs; TensorRT needs it when it builds",
        hint="store it as an initializer",
    ),
)
