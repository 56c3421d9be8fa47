"""The choices for a model that has Q/DQ nodes already."""

import enum


class Existing(enum.Enum):
    """What becomes of the Q/DQ of a model that is to be quantized: it is refused, they stay, or they are taken out."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"
