"""The Python interfaces of TensorRT releases, as type stubs and as the wheels that those are made from.

The stubs of the newest releases are in ``stubs/``: the type checker needs them (``make lint``). ``make bindings``
fetches the wheels into ``.bindings``, which show that these stubs are true, and writes the stubs of the other releases
there. ``tests/engines/tensorrt/test_parsing_product.py`` reads all of them.
"""

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "QDQTOOL_TENSORRT_BINDINGS"
"""Names the folder of the wheels. Tests that need one fail, instead of being skipped, where it is set."""
STUBS = Path(__file__).parent / "stubs"
BINDINGS = Path(os.environ.get(VARIABLE, Path(__file__).parents[3] / ".bindings"))


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
        place = STUBS if self in NEWEST else BINDINGS / "stubs"
        return place / self.folder / f"{self.module}.pyi"


TENSORRT = tuple(
    Release("tensorrt-cu12-bindings", "tensorrt", version)
    for version in ("10.8.0.43", "10.16.1.11", "11.0.0.114", "11.4.0.106")
)
"""The oldest release that the extra ``tensorrt`` allows, the last of 10, the first of 11, the newest."""
RTX = tuple(Release("tensorrt-rtx-cu12-bindings", "tensorrt_rtx", version) for version in ("1.4.0.76", "1.7.1.116"))
"""The oldest release that the package index has, and the one that the tests run."""
RELEASES = (*TENSORRT, *RTX)
JETPACK = Release("tensorrt-cu12-bindings", "tensorrt", "10.3.0")
"""The release of JetPack 6. It builds no engines here, and shows what the target of that release lacks."""
FETCHED = (*RELEASES, JETPACK)
NEWEST = (TENSORRT[-1], RTX[-1])
"""Those whose stubs are in git."""
