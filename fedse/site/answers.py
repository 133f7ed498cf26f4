"""What a site's console says of each round the site has answered, and of what goes wrong in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from fedse.config.schema import Config
from fedse.errors import StoreError
from fedse.faults import Fault
from fedse.ledger.databases import finished_rounds, outbox_audits
from fedse.results.alarms import client_alarms
from fedse.types import ClientStats

PAUSE_SECONDS = 5.0
"""Between two looks into the site's database."""


class AnsweredRounds:
    """Tells of every answer that the site's worker finishes; those of earlier starts are known."""

    def __init__(
        self, home: Path, config: Config, client: str, *, tell: Callable[[str], None]
    ) -> None:
        self._home, self._config, self._client, self._tell = home, config, client, tell
        self._due, self._problem = 0.0, ""
        self._told = max(self._finished(after=0), default=0)

    def look(self, now: float) -> None:
        """Whatever was finished up to `now`, in seconds, has been told, but for the last moment."""
        if now < self._due:
            return
        self._due = now + PAUSE_SECONDS
        try:
            finished = self._finished(after=self._told)
            withheld = self._withheld() if finished else set()
        except StoreError as error:  # what is only told must not end what it is told of
            if self._problem != str(error):
                self._problem = str(error)
                self._tell(f"warning: {error}: {error.hint}" if error.hint else f"warning: {error}")
            return
        own = (self._config, self._client, self._home)
        for round, stats in finished.items():
            for line in answer_lines(round, stats, *own, withheld=round in withheld):
                self._tell(line)
            self._told = round

    def _finished(self, *, after: int) -> dict[int, ClientStats]:
        return finished_rounds(self._home / "buffer.db", self._config.run.name, after=after)

    def _withheld(self) -> set[int]:
        """Rounds whose adapter the site's own audit did not let leave."""
        audited, own = outbox_audits(self._home / "buffer.db"), self._config.run.name
        return {key[1] for key, passed in audited.items() if key[0] == own and not passed}


def answer_lines(
    round: int,
    stats: ClientStats,
    config: Config,
    client: str,
    home: Path,
    *,
    withheld: bool = False,
) -> Iterator[str]:
    """One line about the answer, then one for each alarm.

    Of an answer that was withheld nothing but a fault number left.
    """
    parts = [f"held-out {stats.eval_succeeded} of {stats.eval_played}"] if stats.eval_played else []
    parts += [f"solved {stats.succeeded} of {stats.played}"] if stats.played else []
    parts += [f"learned from {stats.buffered}, loss {stats.loss:.3f}"] if stats.loss else []
    done = ", ".join(parts) or "nothing was played or learned"
    if withheld:
        sent = f"the server got number {Fault.WITHHELD:d} and nothing else"
        yield f"round {round} withheld by the audit, {sent}; here: {done}"
    else:
        yield f"round {round} answered: {done}"
    for alarm in client_alarms({client: stats}, config, round=round, run=str(home)):
        yield f"ALARM {alarm.text}; next: {alarm.next}"
