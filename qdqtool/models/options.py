"""Choices that several commands share: how constants are stored, and how ONNX Runtime runs a model."""

import enum


class ExternalData(enum.Enum):
    """Where weights are stored: as in the input or by size, always in a second file, or always in the model file."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class WeightStorage(enum.Enum):
    """How a quantized constant is stored: as packed codes before a DQ, or as float before Q and DQ."""

    PACKED = "packed"
    QDQ = "qdq"


class Profile(enum.Enum):
    """The configuration of an ONNX Runtime session; :mod:`qdqtool.models.running.ort_cpu` describes each profile."""

    SEMANTIC = "semantic"
    UNPACKED = "unpacked"
    OPTIMIZED = "optimized"
    DEPLOYED = "deployed"
    LEAN = "lean"
