"""The ranges of some tensors so far: what every collector has, wherever the samples run."""

from collections.abc import Iterable, Mapping

from qdqtool.quantization.ranges.types import UNSEEN, Ranges, TensorKey, TensorRange


class CollectedRanges:
    """The ranges that a collector has merged, of all samples and of those that choose.

    Args:
        keys: The tensors.
        holds_back: Whether some samples are held back.

    Attributes:
        unreadable: Why a tensor could not be read everywhere; such a tensor counts as unseen.
    """

    def __init__(self, keys: Iterable[TensorKey], *, holds_back: bool) -> None:
        self._ranges: dict[TensorKey, TensorRange] = dict.fromkeys(keys, UNSEEN)
        self._choosing = dict(self._ranges) if holds_back else None
        self.unreadable: dict[TensorKey, str] = {}

    @property
    def ranges(self) -> dict[TensorKey, TensorRange]:
        """The ranges of the samples that are merged. A tensor that could not be read everywhere has none."""
        return self._readable(self._ranges)

    @property
    def choosing(self) -> dict[TensorKey, TensorRange] | None:
        """The same without the samples that are held back; None where none are, or where they are not known."""
        return None if self._choosing is None else self._readable(self._choosing)

    def resume(self, ranges: Ranges) -> None:
        """Continue from ranges of the same tensors."""
        self._ranges.update(ranges.tensors)
        self.unreadable.update(ranges.unreadable)
        if self._choosing is not None:
            self._choosing = None if ranges.choosing is None else dict(ranges.choosing)

    def merge(self, tensors: Mapping[TensorKey, TensorRange], choosing: Mapping[TensorKey, TensorRange]) -> None:
        """Add the ranges of more samples.

        Args:
            tensors: The range of each tensor.
            choosing: The same without samples that are held back.
        """
        for key, found in tensors.items():
            self._ranges[key] = self._ranges[key].merge(found)
            if self._choosing is not None:
                self._choosing[key] = self._choosing[key].merge(choosing[key])

    def _readable(self, ranges: Mapping[TensorKey, TensorRange]) -> dict[TensorKey, TensorRange]:
        return {key: UNSEEN if key in self.unreadable else found for key, found in ranges.items()}
