"""The input of a report: everything that a run folder records about one run, read once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.committed import RoundResult
from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.config.worlds import world_names
from fedse.ledger.chain import examine
from fedse.ledger.entries import AuditEntry, audit_entries
from fedse.ledger.verifying import ledgers_in
from fedse.ledger.writing import read_ledger
from fedse.results.role_course import Validations, validations_of
from fedse.results.run_list import RunSummary, summary_of
from fedse.stats.rates import Rate, rates
from fedse.store.run import Run
from fedse.store.run_folder import RunCard, read_card, text_digest
from fedse.types import AdapterSpec, ClientStats

Evals = dict[int, dict[str, ClientStats]]
NO_NAME = "run"


@dataclass(frozen=True)
class RunFacts:
    """One run in its present state; `label` is its name among the runs of the page."""

    label: str
    card: RunCard
    config: Config
    config_text: str
    """The text of config.resolved.toml."""
    spec: AdapterSpec
    summary: RunSummary
    results: tuple[RoundResult, ...]
    evals: Evals
    """For each measured round; round 0 is the adapter the run began with."""
    audits: Mapping[str, AuditEntry] = field(default_factory=dict)
    """Client -> its last audit, for clients whose ledgers are in the run's folder."""
    validations: Validations = field(default_factory=dict)
    """Of the adapters of an agent with roles."""

    @property
    def altered(self) -> list[str]:
        """What differs from run.json; a run that was altered can be read but not resumed."""
        checks = {
            "the settings": text_digest(self.config_text) != self.card.config_digest,
            "the base model": self.spec.digest != self.card.spec_digest,
        }
        return [name for name, differs in checks.items() if differs]

    @property
    def clients(self) -> list[str]:
        return [client.name for client in self.config.clients]

    @property
    def env_of(self) -> dict[str, str]:
        """Client -> what its environment is called."""
        names = world_names(client.env for client in self.config.clients)
        return {client.name: names[client.env] for client in self.config.clients}

    def compared(self) -> tuple[dict[str, Rate], dict[str, Rate]] | None:
        """Each client's rate at the first and at the last measured round.

        Only clients measured both times; None where fewer than two rounds were measured.
        """
        if len(self.evals) < 2:
            return None
        before, after = (rates(self.evals[pick(self.evals)]) for pick in (min, max))
        both = [client for client in before if client in after]
        if not both:
            return None
        return {c: before[c] for c in both}, {c: after[c] for c in both}


def read_facts(path: Path, *, clock: Callable[[], float]) -> RunFacts:
    """The facts of the run in `path`; a run in progress is read up to its last round.

    Not `open_run`, which refuses a run that another version of fedse made: such a run must not be
    continued, but it may be read, and the page says so.
    """
    card, summary = read_card(path), summary_of(path)
    resolved = path / "config.resolved.toml"
    config = load_config(resolved)
    with closing(Run(path, config, spec_of(config), clock=clock)) as run:
        last = -1 if run.committed is None else run.committed
        evals_by_round = {index: run.evals(index) for index in range(last + 1)}
        return RunFacts(
            label=_label(card, path),
            card=card,
            config=run.config,
            config_text=resolved.read_text(encoding="utf-8"),
            spec=run.spec,
            summary=summary,
            results=tuple(run.results()),
            evals={index: evals for index, evals in evals_by_round.items() if rates(evals)},
            audits=last_audits(path),
            validations=validations_of(run, run.results()),
        )


def last_audits(path: Path) -> dict[str, AuditEntry]:
    """The newest audit in each client's ledger, by the client's name."""
    found = {}
    for ledger in ledgers_in(path):
        entries = examine(read_ledger(ledger)).entries
        for _, audit in audit_entries(entries):
            found[str(entries[0].facts["name"])] = audit
    return dict(sorted(found.items()))


def _label(card: RunCard, path: Path) -> str:
    """The run's id; in a federation, whose only run is called `run`, the experiment's name."""
    if card.id != NO_NAME:
        return card.id
    return card.experiment if card.experiment != NO_NAME else path.resolve().parent.name


def with_distinct_labels(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """The runs with labels that differ: the path where two runs have the same label."""
    labels = [run.label for run in runs]
    return [
        run if labels.count(run.label) == 1 else replace(run, label=run.summary.path)
        for run in runs
    ]
