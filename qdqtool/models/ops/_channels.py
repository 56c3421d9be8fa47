"""The two places of the channel axis of a tensor."""

import enum


class ChannelLayout(enum.Enum):
    """The channel axis of a tensor: axis 1, as in convolutions, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The index of the axis: 1, or -1."""
        return self.value
