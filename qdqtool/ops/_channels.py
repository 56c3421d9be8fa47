"""Where the channels of a tensor lie."""

import enum


class ChannelLayout(enum.Enum):
    """Where the channels of a tensor lie: axis 1, as convolutions have them, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The axis."""
        return self.value
