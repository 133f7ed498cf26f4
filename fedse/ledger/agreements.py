"""Agreements in both ledgers: the coordinator's has each amendment and who accepted it, a site's
has what it accepted itself."""

from collections.abc import Collection
from pathlib import Path

from fedse.config.agreement import Agreement
from fedse.ledger.entries import AgreedEntry, AgreementEntry, Decider
from fedse.ledger.writing import Ledger
from fedse.store.run import Run
from fedse.types import Clock


def note_agreement(run: Path, terms: Agreement, *, clock: Clock) -> None:
    """The amendment has its line in the coordinator's ledger."""
    ledger = Ledger(run, role="server", name=run.name, clock=clock)
    shared = terms.model_dump(include={"number", "since", "agreed", "spec", "members", "reason"})
    entry = AgreementEntry(document=terms.digest, **shared)
    ledger.append_once("agreement", entry, naming=terms.digest)


def note_agreed(run: Run, terms: Agreement, sites: Collection[str], *, clock: Clock) -> None:
    """Each of these sites has its line about accepting the amendment, in the same ledger."""
    if not sites:
        return
    ledger = Ledger(run.path, role="server", name=run.path.name, clock=clock)
    for site in sites:
        entry = AgreedEntry(number=terms.number, document=terms.digest, client=site)
        ledger.append_once("agreed", entry, naming=terms.digest)


def note_own(home: Path, client: str, terms: Agreement, by: Decider, *, clock: Clock) -> None:
    """What the site accepted, and whether its owner or its rules did, is in its own ledger."""
    ledger = Ledger(home, role="client", name=client, clock=clock)
    entry = AgreedEntry(number=terms.number, document=terms.digest, client=client, by=by)
    ledger.append_once("agreed", entry, naming=terms.digest)
