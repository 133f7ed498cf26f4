"""What a site promises the people its episodes are about: its own decision. Nobody agrees on it."""

from typing import Annotated, Literal

from pydantic import Field

from fedse.config.section import Positive, Section

Unit = Literal["episode", "subject"]


class PrivacySection(Section):
    """Differential privacy of the adapters that leave this site."""

    epsilon: Annotated[float, Field(gt=0)] | None = None
    """What all adapters that ever leave may tell about one unit, together; when the next one would
    tell more, the site abstains. Unset = adapters are trained without noise."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Probability with which they may tell more; well below one in the number of units."""
    unit: Unit = "episode"
    """What is protected as a whole: one episode, or all episodes about one person or case, where
    the environment can name it."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Norm to which the gradient of one unit is shortened."""
    rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Probability with which a unit is in a step, each by itself; a pass over the buffer is 1/rate
    steps. It must not be chosen by the number of units, which is private as well."""
    noise: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation of the noise in units of `clip`; unset = the least with which epsilon
    lasts for `rounds`."""
    rounds: Positive | None = None
    """Rounds that epsilon is divided over, those of later experiments included; unset =
    run.rounds."""
    counts: bool = False
    """Send how many episodes were played, won and kept all the same. They are exact, so the
    guarantee does not hold for them."""

    @property
    def on(self) -> bool:
        """Whether what leaves is trained with noise."""
        return self.epsilon is not None
