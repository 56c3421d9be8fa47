"""How files that do not hold arrays become inputs: options that a caller gives beside the path of the data."""

from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.data.images.options import ImageOptions
from qdqtool.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How files that do not hold arrays become inputs.

    Attributes:
        images: The preprocessing of images.
        labels: A CSV file with the label of each image; None to take labels from the names of folders.
        preview: A PNG to write, which shows the first images after preprocessing; None for none.
    """

    images: ImageOptions = field(default_factory=ImageOptions)
    labels: Path | None = None
    preview: Path | None = None

    def refuse_for(self, source: object) -> None:
        """Refuse options that have no use for data of arrays.

        Raises:
            UsageError: An option is given.
        """
        if self != ReadOptions():
            raise UsageError(
                f"{source} holds arrays, and the options of images, --labels and --preview have no use for it",
                hint="leave them out, or name a folder of images",
            )
