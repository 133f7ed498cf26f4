"""When a round begins: at once, at certain times, or when enough sites have something new."""

import re
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from fedse.config.section import Section

DAY, MINUTE = 86_400.0, 60.0
"""Seconds."""
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class ScheduleSection(Section):
    """When rounds begin. A time that is missed, because a round took longer or the server was down,
    is made up for once, as soon as possible."""

    every: Annotated[float, Field(ge=0)] = 0.0
    """Seconds from the beginning of a round to the beginning of the next; 0 = at once."""
    at: tuple[str, ...] = ()
    """Times of day in UTC at which a round begins, such as `["02:00", "14:00"]`; instead of
    schedule.every."""
    news: Annotated[int, Field(ge=0)] = 0
    """A round begins when this many sites say that they have something new to learn from; the
    others are asked nothing more in it. Until then they are asked again at each time of the
    schedule, or every minute if it names none. 0 = no site is asked, and all take part."""

    @field_validator("at")
    @classmethod
    def _times(cls, times: tuple[str, ...]) -> tuple[str, ...]:
        for one in times:
            if not TIME_OF_DAY.fullmatch(one):
                raise ValueError(f'schedule.at must have times like "02:00", got "{one}"')
        return times

    @model_validator(mode="after")
    def _one_of_them(self) -> "ScheduleSection":
        if self.every and self.at:
            raise ValueError("schedule.every and schedule.at exclude each other: set one of them")
        return self

    def next(self, after: float) -> float:
        """The first time of the schedule after `after`, both in seconds since 1970.

        That is `after` itself where rounds begin at once.
        """
        seconds = [int(one[:2]) * 3600 + int(one[3:]) * 60 for one in self.at]
        midnight = after // DAY * DAY
        times = [midnight + day + one for day in (0, DAY) for one in seconds]
        return min((one for one in times if one > after), default=after + self.every)

    def again(self, now: float) -> float:
        """When sites that had too little news at `now` are asked again."""
        return self.next(now) if self.at or self.every else now + MINUTE
