"""Choices that options of several commands have: how constants are stored, and how ONNX Runtime runs a model."""

import enum


class ExternalData(enum.Enum):
    """Where weights are stored: as in the input unless the size decides, in a second file, or inline."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class WeightStorage(enum.Enum):
    """How a quantized constant is stored: as packed codes behind a DQ, or as float behind Q and DQ."""

    PACKED = "packed"
    QDQ = "qdq"


class Profile(enum.Enum):
    """The configuration of a session: for the exact meaning of the model, or the default of ONNX Runtime."""

    SEMANTIC = "semantic"
    UNPACKED = "unpacked"
    OPTIMIZED = "optimized"
    DEPLOYED = "deployed"
    LEAN = "lean"
