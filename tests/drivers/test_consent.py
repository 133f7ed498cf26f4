"""An amendment holds from its round on, for exactly those who accepted it."""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.config.agreement import FIRST, Agreement, amended, offered_settings
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.consent import is_amended
from fedse.drivers.loop import federate
from fedse.events import Fact
from fedse.ledger.verifying import verify_ledger
from fedse.protocol import YES, Delivery, Question
from fedse.store.agreements import FIELD, agreement_file, agreements_in, holding
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import ClientStats

SPEC, NAMES, ROUNDS = toy_spec(), ("a", "b", "c"), 6
ONE = Config.model_validate(
    {
        "run": {"rounds": ROUNDS},
        "eval": {"episodes": 0},
        "clients": [{"name": name, "env": "maze"} for name in NAMES],
    }
)


def terms_of(config: Config, *, number: int, since: int) -> Agreement:
    return Agreement(
        number=number,
        federation="f",
        experiment=config.run.name,
        since=since,
        members=tuple(sorted(config.members)),
        settings=offered_settings(config),
        agreed=config.agreed_digest(),
        spec=SPEC.identity,
        base=SPEC.base,
        reason="",
        fedse="0",
        issued=0,
        signer="",
    )


def write(path: Path, terms: Agreement) -> None:
    file = agreement_file(path, terms.number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({FIELD: terms.model_dump(mode="json")}))


class Sites:
    """Sites that accept an amendment from a round on, and train under what they have accepted."""

    def __init__(self, run: Run, accept: dict[str, int]) -> None:
        self._run, self._accept, self.asked = run, accept, list[tuple[str, int, tuple[str, ...]]]()

    def __call__(
        self, question: Question, body: bytes, *, of: Collection[str]
    ) -> Iterator[Delivery]:
        self.asked.append((question.kind, question.round, tuple(of)))
        for name in of:
            if question.kind == "agree":
                yes = self._accept.get(name, 1) <= question.round
                yield Delivery(name, ClientStats(), YES if yes else None)
            else:
                seed = int(question.agreed[:6], 16) + 100 * question.round + NAMES.index(name)
                yield Delivery(name, ClientStats(played=1), toy_adapter(SPEC, seed).to_bytes())


def rounds(
    path: Path,
    accept: dict[str, int],
    *,
    kill: Callable[[str, int], bool] = lambda *_: False,
    asked: list[tuple[str, int, tuple[str, ...]]] | None = None,
) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Of every round its adapter, who voted, and why others did not; killed once at `kill`."""
    armed = [True]

    def seen(event: str, facts: dict[str, Fact]) -> None:
        if armed[0] and kill(event, int(facts.get("round") or 0)):
            armed[0] = False
            raise KeyboardInterrupt

    while True:
        known = agreements_in(path)
        with closing(Run(path, ONE, SPEC, clock=lambda: 0.0)) as run:
            terms = holding(known, (run.committed or 0) + 1)
        config = amended(ONE, terms, "it") if terms else ONE
        with closing(Run(path, config, SPEC, clock=lambda: 0.0, observers=[seen])) as run:
            sites = Sites(run, accept)
            try:
                federate(run, sites, clock=lambda: 0.0)
            except KeyboardInterrupt:
                continue
            finally:
                if asked is not None:
                    asked += sites.asked
            if not is_amended(run):
                return [
                    (one.after, one.voters, tuple(fault.text for fault in one.excluded))
                    for one in run.results()
                ]


LATER = with_settings(ONE, {"train.lr": 1e-4})


def test_who_has_not_accepted_is_left_out_by_name_and_catches_up(tmp_path: Path):
    write(tmp_path, terms_of(LATER, number=2, since=3))
    found = rounds(tmp_path, {"b": 5})
    assert [voters for _, voters, _ in found] == [
        NAMES,
        NAMES,
        ("a", "c"),
        ("a", "c"),
        NAMES,
        NAMES,
    ]
    assert [why for _, _, why in found[2:5]] == [
        ("has not accepted agreement 2",),
        ("has not accepted agreement 2",),
        (),
    ]


def test_a_site_is_asked_until_it_has_accepted_and_no_more(tmp_path: Path):
    write(tmp_path, terms_of(LATER, number=2, since=3))
    asked: list[tuple[str, int, tuple[str, ...]]] = []
    rounds(tmp_path, {"b": 4}, asked=asked)
    consent = [(round, of) for kind, round, of in asked if kind == "agree"]
    assert consent == [(1, NAMES), (2, ("b",)), (3, ("b",)), (4, ("b",))]


def test_every_acceptance_has_one_line_and_the_ledger_verifies(tmp_path: Path):
    write(tmp_path, terms_of(LATER, number=2, since=3))
    rounds(tmp_path, {"b": 4}, kill=lambda event, round: (event, round) == ("round.started", 4))
    verdict = verify_ledger(tmp_path / "ledger.jsonl")
    assert verdict.finding is None
    agreed = [entry.facts["client"] for entry in verdict.entries if entry.kind == "agreed"]
    assert sorted(agreed) == [*NAMES]


EVENTS = ("run.started", "round.started", "answer.received", "commit.started", "round.committed")


@given(data=st.data())
def test_a_kill_anywhere_changes_nothing(data: st.DataObject, tmp_path_factory):
    since = data.draw(st.lists(st.integers(2, ROUNDS + 1), min_size=1, max_size=2, unique=True))
    accept = {name: data.draw(st.integers(1, ROUNDS)) for name in NAMES[1:]}
    at = data.draw(st.tuples(st.sampled_from(EVENTS), st.integers(0, ROUNDS)))
    paths = [tmp_path_factory.mktemp("run") for _ in range(2)]
    for path in paths:
        for number, first in enumerate(sorted(since), start=FIRST + 1):
            config = with_settings(ONE, {"train.lr": 10.0**-number})
            write(path, terms_of(config, number=number, since=first))
    whole = rounds(paths[0], accept)
    cut = rounds(paths[1], accept, kill=lambda event, round: (event, round) == at)
    assert whole == cut


def test_more_rounds_are_an_amendment(tmp_path: Path):
    write(tmp_path, terms_of(with_settings(ONE, {"run.rounds": 8}), number=2, since=5))
    assert len(rounds(tmp_path, {})) == 8


@pytest.mark.parametrize("since", [1, 3])
def test_a_run_under_an_amendment_from_the_first_round_on_is_a_run_with_its_settings(
    tmp_path: Path, since: int
):
    write(tmp_path / "amended", terms_of(LATER, number=2, since=since))
    first = [one[0] for one in rounds(tmp_path / "amended", {})]
    with closing(Run(tmp_path / "plain", LATER, SPEC, clock=lambda: 0.0)) as run:
        federate(run, Sites(run, {}), clock=lambda: 0.0)
        plain = [one.after for one in run.results()]
    assert (first == plain) == (since == 1)
