"""Which adapter serves a turn: the one that its session was given at its beginning.

A session that the application names keeps its adapter for as long as that adapter serves at all. If
it was rolled back meanwhile, the session goes on with the present one, and its record shows both.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, NamedTuple

from fedse_serve.asked import Asked
from fedse_serve.canary import Arm, arm_of
from fedse_serve.rows import Pin

REMEMBERED = 10_000
"""Sessions whose adapters are in memory; those of others are looked up."""


class Offered(NamedTuple):
    """Who serves at the moment."""

    current: str
    """Digest of the present adapter, or the engine's name for the bare model."""
    candidate: str = ""
    """Digest of the one that has to prove itself; empty = there is none."""
    share: float = 0.0
    """Of the sessions that it serves."""


class Served(NamedTuple):
    """Who serves a session."""

    session: str
    arm: Arm
    adapter: str
    share: float = 0.0
    """The candidate's when the session began."""


class Serving:
    """Gives every session its adapter."""

    def __init__(
        self,
        pin_of: Callable[[str], Pin | None],
        offered: Callable[[], Offered],
        *,
        salt: str,
        sticky: Literal["session", "person"],
        remembered: int = REMEMBERED,
    ) -> None:
        """`pin_of` knows the sessions on record, `offered` who serves now."""
        self._pin_of, self._offered, self._salt = pin_of, offered, salt
        self._sticky, self._most = sticky, remembered
        self._known: OrderedDict[str, Served] = OrderedDict()

    def __call__(self, asked: Asked) -> Served:
        """Who serves this turn."""
        now = self._offered()
        served = self._known.pop(asked.session, None) or self._looked_up(asked, now)
        self._known[asked.session] = served
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        if served.adapter in (now.current, now.candidate):
            return served
        return served._replace(adapter=now.current)

    def _looked_up(self, asked: Asked, now: Offered) -> Served:
        pin = self._pin_of(asked.session) if asked.named else None
        if pin is not None:
            arm: Arm = "canary" if pin.arm == "canary" else "stable"
            return Served(pin.session, arm, pin.adapter)
        if not now.candidate:
            return Served(asked.session, "stable", now.current)
        person = asked.person if self._sticky == "person" else None
        salt = f"{self._salt}\n{now.candidate}"
        arm = arm_of(person or asked.session, salt=salt, share=now.share)
        adapter = now.candidate if arm == "canary" else now.current
        return Served(asked.session, arm, adapter, now.share)
