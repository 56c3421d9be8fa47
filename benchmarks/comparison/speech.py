"""Made-up speech for a voice detector: syllables of harmonics under formants, hissing consonants and pauses."""

import numpy as np
import numpy.typing as npt

RATE = 16_000
"""Samples in a second."""
Signal = npt.NDArray[np.float32]


def sound(seconds: float, seed: int) -> Signal:
    """A voice that speaks and pauses, amplitudes within [-1, 1]; shape [seconds * RATE]."""
    random = np.random.default_rng(seed)
    length, parts, made = int(seconds * RATE), list[npt.NDArray[np.float64]](), 0
    while made < length:
        part = _pause(random) if random.random() < 0.15 else np.concatenate([_hiss(random), _vowel(random)])
        parts.append(part)
        made += len(part)
    signal = np.concatenate(parts)[:length]
    return (signal + 0.002 * random.standard_normal(length)).clip(-1, 1).astype(np.float32)


def _pause(random: np.random.Generator) -> npt.NDArray[np.float64]:
    return np.zeros(int(RATE * random.uniform(0.3, 0.8)))


def _hiss(random: np.random.Generator) -> npt.NDArray[np.float64]:
    """A consonant: noise without its low tones."""
    length = int(RATE * random.uniform(0.03, 0.1))
    return 0.03 * np.diff(random.standard_normal(length + 1)) * np.hanning(length)


def _vowel(random: np.random.Generator) -> npt.NDArray[np.float64]:
    """Harmonics of a gliding pitch, in Hz, louder near three formants."""
    time = np.arange(int(RATE * random.uniform(0.12, 0.3))) / RATE
    pitch = random.uniform(90, 230) * (1 + random.uniform(-0.15, 0.15) * time / time[-1])
    formants = random.uniform((300, 900, 2200), (800, 2000, 3200))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    harmonics = np.arange(1, int(5000 / pitch.max()))
    distance = (harmonics[:, None] * pitch.mean() - formants) / np.array((90, 130, 200))
    loudness = (np.array((1, 0.5, 0.25)) / (1 + distance**2)).sum(axis=1)
    wave = (loudness[:, None] * np.sin(harmonics[:, None] * phase)).sum(axis=0)
    return random.uniform(0.1, 0.4) * wave / np.abs(wave).max() * np.hanning(len(time))
