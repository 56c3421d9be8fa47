"""The limits that a user gives for the gates of a check."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial

from qdqtool.errors import UsageError
from qdqtool.options import number, option

DEFAULT_AGREEMENT = 0.9
"""Smallest share of equal elements of an integer or boolean output, if a limit for float outputs is set. Labels of
well-made 8-bit models agree for 97 % and more."""

MOST_STEPS = 255.0
"""The number of steps between the smallest and the largest code of 8 bits."""


@dataclass(frozen=True, slots=True)
class OutputGate:
    """A gate on the accuracy of outputs.

    Attributes:
        name: Its name in reports.
        is_asked_for: Whether the gate is active only if the user gave a limit.
        finds_layers: Whether a failure names layers, whose noise can be measured only at float outputs.
    """

    name: str
    is_asked_for: bool = True
    finds_layers: bool = True


ACCURACY = OutputGate("accuracy", is_asked_for=False)
"""This gate passes outputs with 6 dB or more."""

MIN_SQNR, MIN_COSINE = OutputGate("min-sqnr"), OutputGate("min-cosine")
MIN_AGREEMENT = OutputGate("min-agreement", finds_layers=False)
MAX_METRIC_LOSS = OutputGate("max-metric-loss")

_OUTPUT_GATES = (ACCURACY, MIN_SQNR, MIN_COSINE, MIN_AGREEMENT, MAX_METRIC_LOSS)

ACCURACY_GATES = frozenset(gate.name for gate in _OUTPUT_GATES)
"""The gates that measure accuracy; the other gates find faults."""

ON_OUTPUTS = frozenset(gate.name for gate in _OUTPUT_GATES if gate.is_asked_for)
"""The accuracy gates that are active only if the user gave a limit."""

FIND_LAYERS = frozenset(gate.name for gate in _OUTPUT_GATES if gate.finds_layers)
"""The accuracy gates that name layers if they are missed."""

_LEGAL = {
    "min_sqnr": (0.0, math.inf),
    "min_cosine": (-1.0, 1.0),
    "max_steps": (0.0, math.inf),
    "max_weight_steps": (0.0, math.inf),
    "min_agreement": (0.0, 1.0),
}
"""The smallest and the largest legal value of a limit; a limit that is not listed may be any finite number."""

_gate = partial(option, section="Gates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Limits that a model must keep. None deactivates a gate; the other gates of a check are always active.

    Attributes:
        min_sqnr: Each float output has at least this signal to noise ratio against the baseline, in dB.
        min_cosine: Each float output has at least this cosine with the baseline's.
        max_steps: No quantized tensor, and no output that a DQ makes, is further than this many quantization steps
            from the baseline.
        min_agreement: Share of the elements of each integer or boolean output that equal the baseline's. The default is
            :data:`DEFAULT_AGREEMENT` if ``min_sqnr`` or ``min_cosine`` is set, because such an output has no SQNR or
            cosine.
        max_weight_steps: No packed weight is further than this many steps from the baseline's float weight: half a step
            for rounding to nearest. Clipped values are exempt. Codes chosen with data are exempt too, if their error is
            still the one that the model notes.
        max_metric_loss: Largest loss of a task metric: percentage points for top-1, percent for perplexity.

    ``min_sqnr``, ``min_cosine``, ``max_steps``, ``min_agreement`` and ``max_metric_loss`` also apply to outputs that
    were saved elsewhere, against the reference.
    """

    min_sqnr: float | None = _gate(None, "Fail if a float output has a lower signal to noise ratio.", number("DB"))
    min_cosine: float | None = _gate(
        None, "Fail if a float output has a lower cosine with the baseline's.", number("X")
    )
    min_agreement: float | None = _gate(
        None,
        "Fail if a smaller share of an integer, boolean or string output equals the baseline's; 0.9 with --min-sqnr or "
        "--min-cosine.",
        number("SHARE"),
    )
    max_steps: float | None = _gate(None, "Fail if a quantized tensor is more than K steps away.", number("K"))
    max_weight_steps: float | None = _gate(
        0.5,
        "Fail if a packed weight is over K steps away, unless clipped; 'inf' if another tool did not round to nearest.",
        number("K"),
    )
    max_metric_loss: float | None = _gate(
        None,
        "Fail if the metric loses more: percentage points of top-1, percent of perplexity, or what "
        "your function returns.",
        number("X"),
    )

    def bounds_outputs(self) -> bool:
        """Whether any limit on the distance of outputs is set."""
        limits = (self.min_sqnr, self.min_cosine, self.max_steps, self.max_metric_loss, self.min_agreement)
        return any(limit is not None for limit in limits)

    @property
    def judges_scales(self) -> bool:
        """Whether weights have scales that fit the baseline's: true if they may not differ by any number of steps."""
        return self.max_weight_steps is not None and self.max_weight_steps < math.inf

    @property
    def agreement(self) -> float | None:
        """The limit for integer and boolean outputs; None if there is none."""
        asked = self.min_sqnr is not None or self.min_cosine is not None
        return DEFAULT_AGREEMENT if self.min_agreement is None and asked else self.min_agreement

    def empty(self, steps: Iterable[float]) -> Iterator[str]:
        """Yield each limit that nearly every model keeps, as an option.

        Args:
            steps: The number of steps between the smallest and the largest code, for each quantized tensor.
        """
        low = (("min-sqnr", self.min_sqnr), ("min-cosine", self.min_cosine), ("min-agreement", self.min_agreement))
        yield from (f"--{name} {limit:g}" for name, limit in low if limit is not None and limit <= 0)
        if self.max_steps is not None and self.max_steps >= max(steps, default=MOST_STEPS):
            yield f"--max-steps {self.max_steps:g}"

    def require_finite(self) -> None:
        """Check that every limit is finite and has a legal value; ``max_weight_steps`` may be infinite.

        Raises:
            UsageError: A limit is NaN, infinite or not legal.
        """
        for each in fields(self):
            limit = getattr(self, each.name)
            option = f"--{each.name.replace('_', '-')}"
            low, high = _LEGAL.get(each.name, (-math.inf, math.inf))
            endless = each.name == "max_weight_steps" and limit == math.inf
            if limit is None or endless or (math.isfinite(limit) and low <= limit <= high):
                continue
            legal = f"a number from {low:g} to {high:g}" if math.isfinite(high) else f"a number from {low:g} up"
            raise UsageError(
                f"{option} is {limit:g}; it must be {legal if math.isfinite(low) else 'a finite number'}",
                hint="`--max-weight-steps inf` leaves the limit out"
                if each.name == "max_weight_steps"
                else "below 0 dB the error is larger than the output: `--min-sqnr 20` limits the error to a tenth"
                if each.name == "min_sqnr"
                else None,
            )
