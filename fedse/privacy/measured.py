"""How much gradients agree and how much noise an update bears, as it was measured once.

SIGNALS and ADDED are of docs/results/signal.json, `python -m research.measure_signal
docs/results/signal.json`. RECORDED is of docs/results/private-step.json, `python -m
research.private_step docs/results/private-step.json --cells runs/private-step`. STUDIED is of a
simulation that was made before private steps were written, with the same model, world and seed; no
command repeats it.
"""

from collections.abc import Mapping

import numpy as np

WHERE = "one model (tiny-five, rank 8), one world (textcraft, 200 lessons), one seed"
SIGNALS: Mapping[float, float] = {0.05: 0.1784, 0.2: 0.1783, 0.4: 0.1617, 1.0: 0.0813}
"""By clip, while B is zero: the length of the mean of the shortened gradients, in units of the
clip. The longest gradient had 1.21."""
ADDED: Mapping[float, float] = {0.125: 0.0, 0.25: 0.346, 0.5: 0.919, 1.0: 0.983, 2.0: 0.996}
"""By R, the length of an update over that of noise that is added to it: the share of the gain in
held-out loss that is left. At 0.125 the model was worse than before."""
RECORDED: Mapping[float, float] = {1.25: 0.93}
"""The same where each of 36 private steps of five sites had its noise, against such steps without,
with three seeds; R by the length of the first gradient."""
STUDIED: Mapping[float, float] = {0.21: 0.0, 0.56: 0.43, 0.74: 0.43}
"""The same by the simulation, with 12 steps at the least R. The last two were 0.44 and 0.42. At
1.29 it had 0.83."""
STEPPED: Mapping[float, float] = {**STUDIED, **RECORDED}
ENOUGH, PLENTY = 0.5, 1.25
"""R from which added noise takes less than a tenth of the gain, and private steps do too."""


def signal_at(clip: float) -> float:
    """As it was measured with this clip; beyond the longest gradient it falls as 1/clip."""
    longest = max(SIGNALS)
    if clip > longest:
        return SIGNALS[longest] * longest / clip
    return float(np.interp(np.log(clip), np.log([*SIGNALS]), [*SIGNALS.values()]))


def gain_at(ratio: float, measured: Mapping[float, float]) -> float:
    """The share of the gain that was left at this R; between the measured ones by its logarithm."""
    return float(np.interp(np.log(max(ratio, 1e-9)), np.log([*measured]), [*measured.values()]))
