"""What a federation's server needs of its disk, and when what it runs counts as hung."""

from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.config.schema import Config
from fedse.federation.folder import Federation
from fedse.flower.ops.commands import healthy
from fedse.processes.pulse import ROUND_LOOP, Sign, touched
from fedse.processes.restart import Tell
from fedse.processes.watchdog import SilenceWatch, Watchdog
from fedse.store.lock import is_locked
from fedse.store.run_folder import run_config
from fedse.store.space import SPARE_BYTES, Need, RoomWatch

# A round stores its adapter and what its aggregator remembers, as much as two more adapters.
ROUND_ADAPTERS = 3
# A SuperLink that is asked how it is does not answer at all; a busy one takes seconds.
UNHEALTHY_SECONDS, PROBE_SECONDS = 120.0, 15.0


def config_of(federation: Federation) -> Config:
    return run_config(federation.run)


def room_of(federation: Federation, tell: Tell) -> RoomWatch:
    """Watches for the room that a round needs in the federation's folder."""
    needed = ROUND_ADAPTERS * spec_of(config_of(federation)).nbytes + SPARE_BYTES
    return RoomWatch(Need(federation.path, needed, "a round"), tell=tell)


def plain_watchdog(federation: Federation) -> Watchdog:
    """For nginx: it hangs only if a signal stopped it."""
    return Watchdog(stopped=config_of(federation).watchdog.stopped)


def link_watchdog(federation: Federation, address: str) -> Watchdog:
    """For the SuperLink: it must answer when it is asked how it is."""

    def sign() -> object:
        return object() if healthy(address, federation.identity.ca) else False

    answers = SilenceWatch(sign, UNHEALTHY_SECONDS, "has not answered", every=PROBE_SECONDS)
    return Watchdog(stopped=config_of(federation).watchdog.stopped, others=[answers])


def loop_watchdog(federation: Federation) -> Watchdog:
    """For the SuperExec: the round loop, which it runs, must get somewhere."""
    config = config_of(federation)
    silence = config.watchdog.silence(config.aggregate.deadline)
    progress = SilenceWatch(_loop_sign(federation.run), silence, "runs a round loop that stands")
    return Watchdog(stopped=config.watchdog.stopped, others=[progress])


def _loop_sign(run: Path) -> Sign:
    """The round loop's pulse; one that was killed leaves its file, but not its lock."""
    sign = touched(run / ROUND_LOOP)
    return lambda: sign() if is_locked(run) else None
