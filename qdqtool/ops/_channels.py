"""The channel axis of a tensor."""

import enum


class ChannelLayout(enum.Enum):
    """The axis of the channels of a tensor: axis 1, as in convolutions, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The axis."""
        return self.value
