"""A round in which sites send sums of short gradients with noise, and the server takes a step."""

from typing import Annotated

from pydantic import Field

from fedse.config.section import Section


class StepSection(Section):
    """One private step a round in place of adapters (docs/adr/0054). All members agree on it,
    because each adds only its share of the noise; what may be told in all is each site's [privacy].
    [train] then says only which factors are learned and how personal adapters are made."""

    units: Annotated[int, Field(ge=0)] = 0
    """How many units, episodes or people, all sites are expected to learn from together; the sum of
    their gradients is divided by it. Everybody knows it, so do not choose it by what is in the
    buffers. 0 = sites train and send adapters (paper)."""
    clip: Annotated[float, Field(gt=0)] = 0.1
    """Norm to which the gradient of one unit is shortened; below nearly all norms is best. Choose
    it on public lessons, never on a site's."""
    noise: Annotated[float, Field(gt=0)] | None = None
    """Standard deviation, in units of `clip`, of the noise in the sum of the honest sites that must
    be left: more than two thirds answer, and fewer than a third of all are corrupt. It must be set;
    `fedse privacy budget` tells for how many rounds it lasts."""
    lr: Annotated[float, Field(gt=0)] = 2.5
    """How far the server goes along the sum divided by `units` and `clip`; it stays the same in all
    rounds."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the last step's direction that the next one keeps."""

    @property
    def on(self) -> bool:
        """Whether sites send sums of gradients in place of adapters."""
        return self.units > 0
