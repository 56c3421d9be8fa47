"""How many models each property is tried on: a few, the same in every run, or as many new ones as are asked for."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings

EXAMPLES = "QDQTOOL_EXAMPLES"


def tried_on(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try a property on ``examples`` models that are the same in every run.

    With ``QDQTOOL_EXAMPLES`` in the environment it is tried on as many new ones as that says (``make properties``).
    """
    asked = int(os.environ.get(EXAMPLES, "0"))
    return settings(
        max_examples=asked or examples,
        derandomize=not asked,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
