"""Refusals of operators that TensorRT does not have, and of attributes that it does not support."""

from qdqtool.engines.tensorrt.known_refusals._known import BY_OPERATOR, known
from qdqtool.models.ops.microsoft import WRITTEN_HINT

_RESIZE_OUTSIDE = (
    "if the model resizes its input, resize before the engine runs; otherwise change the attributes of the Resize"
)

ENTRIES = (
    known(
        r"Plugin not found|failed to load \w+ plugin|creator && |plugin was not found in the plugin registry",
        "TensorRT has no operator and no plugin with this name",
        hint=BY_OPERATOR,
        rules="QT403 QT419 QT420",
    ),
    known(
        r"doesn't support mode than 1 outputs",
        "TensorRT computes only its first output, but another output is read",
        hint=BY_OPERATOR,
    ),
    known(
        r"(?:ScatterND with reduction is not supported|Unsupported reduction type)",
        "TensorRT scatters without a reduction only (attribute reduction is not 'none')",
        hint="export it without index_add or scatter_add, or run that part outside the engine",
    ),
    known(
        r"does not support dilations other than 1",
        "it pools with dilations, which TensorRT supports only for convolutions",
        hint="write an AveragePool as a Conv with one weight for all elements; a MaxPool has no such form",
    ),
    known(
        r"only supports half_pixel, pytorch_half_pixel",
        "TensorRT supports only these coordinate transformation modes: half_pixel, pytorch_half_pixel, "
        "tf_half_pixel_for_nn, asymmetric, align_corners",
        hint=_RESIZE_OUTSIDE,
    ),
    known(
        r"Antialiasing is not supported",
        "it resizes with antialias=1",
        hint="export it with antialias=0, which changes the result when an image gets smaller",
    ),
    known(
        r"Only `stretch` is supported currently as `keep_aspect_ratio_policy`",
        "its keep_aspect_ratio_policy is not 'stretch'",
        hint="store the sizes that it computes, with the policy 'stretch'",
    ),
    known(
        r"`axes` attribute is supported with `scales` tensor only",
        "it resizes along some axes only",
        hint="give a scale for every axis, 1 for the others, and remove the attribute axes",
    ),
    known(
        r"Only L1 and L2 normalization are supported",
        "its norm (attribute p) is neither 1 nor 2",
        hint="write it as Abs, Pow, AveragePool and Pow",
    ),
    known(
        r"fmod attribute is set to 0\. Inputs cannot be of floating point types\. The current input type is (\w+)",
        "it takes the remainder of {0} with fmod=0, which TensorRT supports only for int32 and int64",
        hint="cast to int32, or set fmod=1: this differs where an operand is negative",
    ),
    known(
        r"only supports floating-point, INT32, or INT64 inputs for Clip! The current input type is (\w+)",
        "it clips {0}; TensorRT clips floats, int32 and int64",
        hint="cast to int32 in front of it, and back behind it",
    ),
    known(
        r"only supports int32, int64, and float input types for Range",
        "it makes a range of another type than float32, int32 and int64",
        hint="make the range in one of these types, and cast it",
    ),
    known(
        r"last chunk size is negative",
        "it splits an axis into more parts than fit",
        hint="write the sizes of the parts as the second input",
    ),
    known(
        r"Unsupported data type in randomUniform",
        "it draws random numbers of another type than float32 and float16",
        hint="draw them in float32, and cast",
    ),
    known(
        r"Only linear mode is supported for now, got (\w+)",
        "it writes in mode '{0}'; TensorRT supports only 'linear'",
        hint="set mode to 'linear', with a cache that is long enough",
    ),
    known(
        r"past_cache tensor is required to be 4D, got (\d+)D",
        "its cache has {0} dimensions; TensorRT wants 4",
        hint="put the heads into a dimension of their own",
    ),
    known(
        r"activation_alpha must be specified|k must be greater than 0",
        "TensorRT has its own operator with this name, with other attributes",
        hint=BY_OPERATOR,
        rules="QT403",
    ),
    known(
        r"scale != 0: scale is invalid",
        "it has no attribute scale, and TensorRT has no default for it",
        hint=BY_OPERATOR,
    ),
    known(
        r"MultiHeadAttention (\w+) input is not supported",
        "TensorRT takes no input {0}",
        hint=BY_OPERATOR,
    ),
    known(
        r"only supports MultiHeadAttention with|MultiHeadAttention (?:only supports 3D|requires query)",
        "TensorRT takes queries, keys and values with 3 dimensions, and makes one output",
        hint=WRITTEN_HINT,
    ),
    known(
        r"Q, K, and V inputs must have the same number of dimensions",
        "TensorRT reads it as the Attention of ONNX, whose first three inputs have the same number of dimensions",
        hint=WRITTEN_HINT,
    ),
    known(
        r"input tensor A must be FP16",
        "TensorRT takes float16 data only, and needs a plugin for it",
        hint=BY_OPERATOR,
    ),
    known(
        r"only support output and input_skip_bias_sum",
        "TensorRT makes no mean and no deviation (outputs 1 and 2)",
        hint="remove these outputs",
    ),
    known(
        r"does not support the sparse_value, value_string and value_strings attributes",
        "it is a constant that is sparse or holds strings",
        hint="store the values as a dense tensor of numbers",
        rules="QM609",
    ),
)
