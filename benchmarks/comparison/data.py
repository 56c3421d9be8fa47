"""Random inputs with a seed, shaped a little like real ones; nothing is learned from them but ranges and errors."""

import numpy as np
import numpy.typing as npt


def images(count: int, shape: tuple[int, int, int], seed: int) -> npt.NDArray[np.float32]:
    """Smooth random images, shape [count, *shape], around 0 with a deviation that differs from image to image.

    Amplitudes fall with frequency as in photographs (1/f); about one image in ten has twice the contrast.
    """
    channels, height, width = shape
    random = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = 1 / max(height, width)
    made = np.empty((count, *shape), np.float32)
    for image in made:
        noise = np.fft.rfft2(random.standard_normal((channels, height, width)))
        smooth = np.fft.irfft2(noise / frequency, s=(height, width))
        image[:] = (smooth - smooth.mean()) / smooth.std() * random.lognormal(0, 0.5)
    return made


def token_ids(count: int, tokens: int, vocabulary: int, seed: int) -> dict[str, npt.NDArray[np.int64]]:
    """Sentences of different lengths, filled up with token 0 and masked there; frequent words are frequent (Zipf)."""
    random = np.random.default_rng(seed)
    ids = np.minimum(random.zipf(1.3, (count, tokens)), vocabulary - 1).astype(np.int64)
    lengths = random.integers(tokens // 4, tokens + 1, count)
    mask = (np.arange(tokens)[None, :] < lengths[:, None]).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}
