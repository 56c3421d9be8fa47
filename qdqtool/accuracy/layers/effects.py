"""The effect of each unit on the outputs: when only it is quantized, and when only it stays in float."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from qdqtool.accuracy.layers.masked_model import MaskedModel, Setting
from qdqtool.accuracy.layers.masked_runs import Errors, MaskedRuns
from qdqtool.accuracy.layers.noise_file import NoiseCache, alone_key, float_key
from qdqtool.accuracy.layers.units import Unit
from qdqtool.models.plan import Placement

Tick = Callable[[int, int], None]
"""Called with the number of settings that were run, and how many there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """What one unit does.

    Attributes:
        unit: The unit.
        alone: Errors of the outputs with only this unit quantized.
        without: Errors of the outputs with only this unit in float.
        gain_db: By how much the outputs are nearer to those of the float model when this unit alone stays in float.
    """

    unit: Unit
    alone: Errors
    without: Errors
    gain_db: float


def noise_shares(effects: Sequence[Effect]) -> Mapping[Unit, float]:
    """Return the share of each unit in the noise that all of them make alone, at the output where it is largest.

    It is 1 for a unit that makes an output NaN or infinite: such elements are in no sum.
    """
    names = list(effects[0].alone) if effects else []
    whole = {name: sum(effect.alone[name].noise for effect in effects) for name in names}
    heard = [name for name in names if whole[name] > 0]
    return {effect.unit: _share(effect.alone, {name: whole[name] for name in heard}) for effect in effects}


def _share(alone: Errors, whole: Mapping[str, float]) -> float:
    if any(error.nonfinite_mismatches for error in alone.values()):
        return 1.0
    return max((alone[name].noise / noise for name, noise in whole.items()), default=0.0)


def float_setting(units: Sequence[Unit]) -> Setting:
    """Return the setting with the pairs of some units switched off."""
    return dict.fromkeys(chain.from_iterable(unit.sites for unit in units))


def only_setting(unit: Unit, masked: MaskedModel) -> Setting:
    """Return the setting with the pairs of one unit alone switched on."""
    off: dict[int, Placement | None] = dict(masked.all_float)
    for site in unit.sites:
        off.pop(site, None)
    return off


def effects_of(
    units: Sequence[Unit], runs: MaskedRuns, masked: MaskedModel, tick: Tick, cache: NoiseCache | None = None
) -> tuple[Effect, ...]:
    """Measure every unit, and return the effects, the unit with the largest gain first.

    Args:
        units: The units.
        runs: The session and its samples: all of them are run twice for each unit, and once more.
        masked: The model of the session.
        tick: Told of every setting.
        cache: Gets the noise of every setting; None to keep none.

    Raises:
        RunError: A node fails on a sample.
    """
    whole, kept = runs.noise({}), {} if cache is None else cache
    kept[float_key([])] = whole
    found: list[Effect] = []
    for number, unit in enumerate(units):
        tick(2 * number, 2 * len(units))
        alone = runs.measure(only_setting(unit, masked))
        tick(2 * number + 1, 2 * len(units))
        without = runs.measure(float_setting([unit]))
        kept[alone_key(number)], kept[float_key([number])] = alone.noise, without.noise
        found.append(Effect(unit, alone.errors, without.errors, whole.gain_db(without.noise)))
    return tuple(sorted(found, key=lambda effect: -effect.gain_db))
