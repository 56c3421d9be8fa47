"""Write the pages of the rules before a wheel or sdist is built: they follow from the code and are not in git."""

import importlib.util
import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ("click", "jinja2", "ml_dtypes", "msgspec", "numpy", "onnx", "onnx_graphsurgeon", "onnxruntime")
"""What the pages take: each rule is run on its examples, and each fix is proven with ONNX Runtime."""


class RulePages(BuildHookInterface):
    """Write ``docs/rules`` where the package can be imported.

    An isolated build does not have the packages in ``NEEDED``. Such a build takes the pages that are there, which an
    sdist has, and goes on without them in a checkout: ``qdqtool explain CODE`` makes its text from the rule. ``make
    wheel`` fails where pages are missing in what it builds.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 -- hatchling's signature
        """Write the pages, but for an editable install, which reads ``docs`` itself."""
        absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if version == "editable":
            return
        if absent:
            self.app.display_warning(f"pages of rules are not made, since these are not installed: {', '.join(absent)}")
            return
        words = [sys.executable, "-m", "qdqtool.reports.markdown.rules", "docs/rules"]
        subprocess.run(words, cwd=self.root, env={**os.environ, "PYTHONPATH": self.root}, check=True)  # noqa: S603
