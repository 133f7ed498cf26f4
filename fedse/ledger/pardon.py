"""Pardon a quarantined client, in the run's database and in its ledger."""

from fedse.aggregate.quarantine import WINDOW, quarantined, strike_history
from fedse.errors import ConfigError
from fedse.ledger.record import note_pardons
from fedse.ledger.writing import Ledger
from fedse.store.run import Pardon, Run
from fedse.types import Clock


def grant_pardon(run: Run, client: str, *, reason: str, clock: Clock) -> Pardon:
    """The client takes part again from the next round, also after a restart.

    Granting it twice has no further effect. Another process may be working on the run meanwhile.
    """
    pardons = run.pardons()
    past = strike_history(run.recent(WINDOW), {one.client: one.after for one in pardons})
    limit, strikes = run.config.aggregate.strikes, past.strikes(client)
    earlier = [one for one in pardons if one.client == client]
    if quarantined(past, [client], limit=limit):
        granted = run.pardon(client, reason=reason)
    elif earlier and not strikes:
        granted = earlier[-1]
    else:
        since = f" since its pardon after round {earlier[-1].after}" if earlier else ""
        raise ConfigError(
            f"{client} is not in quarantine: replies of {strikes} rounds were rejected{since}, "
            f"aggregate.strikes is {limit}",
            hint="fedse federation status",
        )
    note_pardons(Ledger(run.path, role="server", name=run.path.name, clock=clock), run)
    return granted
