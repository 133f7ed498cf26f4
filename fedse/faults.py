"""Why a site has no usable answer: it sends only a number, and the server has the words for it."""

from collections.abc import Mapping
from enum import IntEnum


class Fault(IntEnum):
    """What a site's reply says went wrong there.

    Below 20 it is the exit code of the error that was raised (fedse.errors); from 20 on the worker
    could not be reached or had no room to work; from 30 on the site's own rules decided. A number
    of a later version keeps its value and has the words of UNFORESEEN.
    """

    NONE = 0
    UNFORESEEN = 1
    SETTINGS = 2
    MACHINE = 3
    ENVIRONMENT = 4
    ADAPTER = 5
    REQUEST = 6
    STORE = 7
    TRAINING = 8
    EPISODES = 10
    UNREACHABLE = 20
    SILENT = 21
    GARBLED = 22
    FULL_DISK = 23
    PAUSED = 30
    OTHER_EXPERIMENT = 31
    TOO_MANY_ROUNDS = 32
    TOO_MANY_BYTES = 33
    VETOED = 34
    STALE = 35
    OTHER_ADAPTER = 36
    TOO_FAR_AHEAD = 37
    OTHER_ROSTER = 38
    PRIVACY_SPENT = 39
    WITHHELD = 40

    @classmethod
    def _missing_(cls, value: object) -> "Fault | None":
        if not isinstance(value, int):
            return None
        unknown = int.__new__(cls, value)
        unknown._name_, unknown._value_ = f"UNKNOWN_{value}", value
        return unknown

    @property
    def words(self) -> str:
        """What the server says about it."""
        return WORDS.get(self, WORDS[Fault.UNFORESEEN])

    @property
    def abstains(self) -> bool:
        """A site that is well answers without a vote, by its own choice."""
        return self in (Fault.PAUSED, Fault.VETOED, Fault.PRIVACY_SPENT, Fault.WITHHELD)

    @property
    def passing(self) -> bool:
        """What may be over soon: a site that comes back can still answer in the same round."""
        return self in (Fault.UNREACHABLE, Fault.GARBLED, Fault.FULL_DISK)


WORDS: Mapping[Fault, str] = {
    Fault.NONE: "",
    Fault.UNFORESEEN: "the site failed in an unforeseen way",
    Fault.SETTINGS: "the site's settings are wrong",
    Fault.MACHINE: "the site's machine lacks something",
    Fault.ENVIRONMENT: "the site's environment broke its contract, or too many of its episodes",
    Fault.ADAPTER: "the site rejected the adapter it was sent",
    Fault.REQUEST: (
        "the site refused the request: experiment, settings or base model differ from its own"
    ),
    Fault.STORE: "the site cannot read or write its buffer",
    Fault.TRAINING: "training went wrong at the site",
    Fault.EPISODES: "too many episodes broke at the site",
    Fault.UNREACHABLE: "the site's worker does not run, or not where its SuperNode looks for it",
    Fault.SILENT: "the site's worker did not answer in time",
    Fault.GARBLED: "the site's worker broke off the answer",
    Fault.FULL_DISK: "the site's disk is full",
    Fault.PAUSED: "the site is paused",
    Fault.OTHER_EXPERIMENT: "the site's policy does not allow this experiment",
    Fault.TOO_MANY_ROUNDS: "the site's policy allows no further rounds",
    Fault.TOO_MANY_BYTES: "the site's policy allows fewer bytes than an adapter has",
    Fault.VETOED: "the site vetoed the adapter: it solves too few of its held-out games",
    Fault.OTHER_ADAPTER: "the site has worked on this round with another adapter already",
    Fault.TOO_FAR_AHEAD: "the site's policy does not allow to skip so many rounds",
    Fault.OTHER_ROSTER: (
        "the site has answered this round for another list of members already, and a second sum "
        "could tell a single member's update"
    ),
    Fault.PRIVACY_SPENT: "the site's privacy budget allows no further adapter",
    Fault.WITHHELD: "the site's own audit did not let its adapter leave",
    Fault.STALE: "the site has finished a later round already, and does not allow earlier ones",
}
