"""What a site promises the people its episodes are about; each site decides this for itself."""

from typing import Annotated, Literal

from pydantic import Field

from fedse.config.presets import PresetName
from fedse.config.section import Positive, Section

Unit = Literal["episode", "subject"]


class PrivacySection(Section):
    """Differential privacy of the adapters that leave this site."""

    preset: PresetName | None = None
    """One word for what is on: fills in what is not set here, and refuses what would loosen it;
    `fedse privacy explain` tells what that is. A site decides for itself, and what all sites must
    agree on counts as agreed. Unset = every setting by itself."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """How much all adapters that ever leave may together reveal about one unit; if the next one
    would reveal more, the site abstains. Unset = adapters are trained without noise."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Probability that they reveal more; choose it well below 1 / (number of units)."""
    unit: Unit = "episode"
    """What is protected as a whole: one episode, or all episodes about one person or case, if the
    environment can name it."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Norm to which the gradient of one unit is clipped."""
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Probability that a unit takes part in a step, independently of the others; a pass over the
    buffer is 1/rate steps. Do not choose it by the number of units, which is private too."""
    noise: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the noise, in units of `clip`; unset = the smallest with which epsilon
    lasts for `rounds`."""
    rounds: Positive | None = None
    """Number of rounds that epsilon must last for, including those of later experiments; unset =
    run.rounds."""
    counts: bool = False
    """Still send how many episodes were played, succeeded and were kept. These counts are exact, so
    the guarantee does not cover them."""

    @property
    def on(self) -> bool:
        """Whether what leaves is trained with noise."""
        return self.epsilon is not None
