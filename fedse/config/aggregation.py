"""How a round's replies become the next global adapter, and how long a round waits for them."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from fedse import plugins
from fedse.config.section import Options, Positive, Section, one_of, require_options

AGGREGATES = one_of("mean", "weighted", group=plugins.AGGREGATES)


class AggregateSection(Section):
    type: Annotated[str, AGGREGATES] = "mean"
    """How adapters are merged: `mean` = unweighted (paper), `weighted` = by buffer size (its
    ablation), the name of an installed variant, or `module:name`."""
    options: Options = {}  # noqa: RUF012 (pydantic copies it)
    """Settings for a `type` that is not built in, which checks them itself."""
    clip: Literal["none", "median"] = "median"
    """Scale updates that are longer than the median down to it; `none` = the paper's plain mean."""
    step: Annotated[float, Field(gt=0)] = 1.0
    """How far to go towards the mean of the updates (paper: 1); a value above 1 goes beyond it."""
    max_norm: Annotated[float, Field(gt=0)] = 1e4
    """A reply whose A or B factors have a larger norm than this is excluded."""
    strikes: Annotated[int, Field(ge=0)] = 3
    """After this many rounds with a rejected reply a client is quarantined; 0 = never."""
    min_clients: Positive = 1
    """With fewer valid replies than this the run ends; votes and abstentions both count."""
    goal: Annotated[int, Field(ge=0)] = 0
    """A round closes as soon as it has this many valid replies; 0 = all. With more than 20 members,
    only a third more than this are asked, drawn anew each round. A later reply counts only if
    `late` allows it."""
    deadline: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds a round waits for replies (Flower driver)."""
    pace: Annotated[float, Field(ge=0)] = 0.0
    """A round already stops waiting when it has lasted this many times as long as the median site
    took in the round before, such as 2; `deadline` stays the limit. 0 = only `deadline` counts."""
    late: Annotated[int, Field(ge=0)] = 0
    """A vote that arrives up to this many rounds late counts in the round that is open then, with
    the weight (1 + rounds late)^-0.5. 0 = a late vote never counts."""
    rejoin: Annotated[float, Field(ge=0)] = 90.0
    """Seconds a round waits for a site that answered the previous round but is now offline."""
    secure: bool = False
    """The server learns only the sum of the updates, no single one (docs/adr/0036). Each member
    needs the others' public keys, and more than two thirds of all members must stay until the
    end."""
    secure_bound: Annotated[float, Field(gt=0)] = 8.0
    """With `secure`: the maximum Euclidean length of an update; members scale longer ones down to
    it."""

    regions: dict[str, Positive] = {}  # noqa: RUF012 (pydantic copies it)
    """The members that are regions, each with the most sites it may speak for, such as
    `{ north = 5 }`. A region adds up its sites' votes and sends their signed sum
    (docs/how-to/regions.md)."""

    secure_members: Annotated[int, Field(ge=0)] = 0
    """With `secure`: the most updates that are ever added up; 0 = as many as there are members. The
    sites of a region have here how many all regions may speak for."""

    @property
    def server_sees(self) -> Literal["sum", "adapters"]:
        """What the server learns of the sites' updates: all of them, or only their sum."""
        return "sum" if self.secure else "adapters"

    @model_validator(mode="after")
    def _reachable(self) -> "AggregateSection":
        if 0 < self.goal < self.min_clients:
            raise ValueError(f"goal {self.goal} is less than min_clients {self.min_clients}")
        return self

    @field_validator("pace")
    @classmethod
    def _waits_for_half(cls, pace: float) -> float:
        if 0 < pace < 1:
            raise ValueError(f"must be 0 (only the deadline counts) or at least 1, got {pace:g}")
        return pace

    @model_validator(mode="after")
    def _allowed(self) -> "AggregateSection":
        require_options("aggregate.options", AGGREGATES.variant(self.type), self.options)
        return self
