"""The Python interfaces of TensorRT releases, as type stubs in ``stubs/`` and as the wheels that those are made from.

The stubs serve the type checker (``make lint``) and ``tests/engines/tensorrt/test_parsing_product.py``, on any machine.
The wheels, which ``make bindings`` fetches into ``.bindings``, show that the stubs are true.
"""

from dataclasses import dataclass
from pathlib import Path

STUBS = Path(__file__).parent / "stubs"


@dataclass(frozen=True, slots=True)
class Release:
    """One release of a product.

    Attributes:
        package: What the package index calls its bindings.
        module: Its Python module.
        version: Its version.
    """

    package: str
    module: str
    version: str

    @property
    def folder(self) -> str:
        """Name of the folder that has its stub."""
        return f"{self.module}-{self.version}"

    @property
    def stub(self) -> Path:
        """Its type stub."""
        return STUBS / self.folder / f"{self.module}.pyi"


TENSORRT = tuple(
    Release("tensorrt-cu12-bindings", "tensorrt", version)
    for version in ("10.8.0.43", "10.16.1.11", "11.0.0.114", "11.4.0.106")
)
"""The oldest release that the extra ``tensorrt`` allows, the last of 10, the first of 11, the newest."""
RTX = tuple(Release("tensorrt-rtx-cu12-bindings", "tensorrt_rtx", version) for version in ("1.4.0.76", "1.7.1.116"))
"""The oldest release that the package index has, and the one that the tests run."""
RELEASES = (*TENSORRT, *RTX)
