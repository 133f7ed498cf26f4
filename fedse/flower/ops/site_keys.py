"""Which key a site's node starts with while its rotation waits to be accepted.

A site is not told when the coordinator has accepted its new key; it notices that the server lets
its node in. Until then each start of the node tries the other key.
"""

from typing import NamedTuple

from fedse.federation.home import Home
from fedse.federation.keys import PRESENCE, NodeKey
from fedse.federation.rotation import (
    finish_rotation,
    forget_presences,
    next_key,
    next_presence,
)
from fedse.federation.security import note
from fedse.processes.restart import Tell
from fedse.types import Clock


class ChosenKey(NamedTuple):
    key: NodeKey
    presence: str
    """Name of the file for the node's number; numbers belong to keys."""


class SiteKeys:
    """The keys of a site that runs."""

    def __init__(self, home: Home, tell: Tell, *, clock: Clock) -> None:
        self._home, self._tell, self._clock = home, tell, clock
        self._tries_next = True

    def choose(self) -> ChosenKey:
        """The key to start with: the site's own or, in turn, one that waits to replace it.

        Called when no node of the site runs.
        """
        self.look()
        forget_presences(self._home.path)
        new = next_key(self._home.path)
        if new is None or self._tries_next:
            self._tries_next = False
            return ChosenKey(self._home.key, PRESENCE)
        self._tries_next = True
        return ChosenKey(new, next_presence(self._home.path, new).name)

    def look(self) -> None:
        """A new key that the server has let in is the site's own."""
        if finish_rotation(self._home):
            self._tries_next = False
            note(self._home.path, "key.changed", clock=self._clock)
            self._tell("the coordinator has accepted the new key; the old one is gone")
