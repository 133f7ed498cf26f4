"""A site keeps episodes for as many days as its owner says, and its ledger tells what went."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from fedse.config.schema import Config
from fedse.config.storage import StorageSection
from fedse.events import silent
from fedse.ledger.chain import FILE, examine
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import read_ledger
from fedse.method.site import Site
from fedse.protocol import Question
from fedse.site.answer import answer
from fedse.site.forget import forget_subject, look_for
from fedse.site.old_episodes import DAY_SECONDS
from fedse.site.rules import first_rules, set_pause, write_rules
from fedse.testing import open_toy_site, toy_adapter
from tests.site.people import PERSONS, config

KEPT_DAYS = 30


class Days:
    """A site that is asked for rounds on the days of a calendar."""

    def __init__(self, home: Path, days: int) -> None:
        self.now, self.home = 0.0, home
        given = config()
        self.config: Config = given.model_copy(update={"storage": StorageSection(days=days)})
        self.policy = home / "policy.toml"
        self.site: Site = open_toy_site(self.config, "a", home, clock=lambda: self.now)
        rules = first_rules(given, adapter_bytes=self.site.spec.nbytes)
        write_rules(self.policy, rules.model_copy(update={"max_skipped": None}))

    def ask(self, round: int, *, day: float) -> None:
        self.now, given = day * DAY_SECONDS, toy_adapter(self.site.spec, round)
        question = Question(
            experiment="e", round=round, agreed=self.config.agreed_digest(),
            spec=self.site.spec.identity, adapter=given.digest, kind="train", evaluate=False,
        )  # fmt: skip
        answer(question, given.to_bytes(), self.site, self.config, emit=silent, policy=self.policy)

    def rounds(self) -> set[int]:
        return {game.round for game in self.site.buffer.games("e")}

    def removals(self) -> list[dict[str, object]]:
        lines = examine(read_ledger(self.home / FILE)).entries
        return [line.facts for line in lines if line.kind == "removed"]


@pytest.fixture
def days(tmp_path: Path):
    made = Days(tmp_path, KEPT_DAYS)
    with closing(made.site.buffer):
        yield made


def test_rounds_older_than_that_are_gone_at_the_next_question_and_the_ledger_says_so(days: Days):
    for round, day in ((1, 0), (2, 10), (3, 30)):
        days.ask(round, day=day)
    assert (days.rounds(), days.removals()) == ({1, 2, 3}, [])
    lessons = days.site.buffer.added("e", 1)
    assert lessons > 0
    days.ask(4, day=30.1)
    assert days.rounds() == {2, 3, 4}
    (line,) = days.removals()
    assert line["rounds"] == {"e": 1}
    # Those that a later round met again stay.
    gone = lessons - days.site.buffer.added("e", 1)
    assert (line["days"], line["games"], line["lessons"]) == (KEPT_DAYS, 12, gone)
    days.ask(5, day=30.2)
    assert len(days.removals()) == 1
    assert verify_ledger(days.home / FILE).finding is None


def test_a_removal_that_was_cut_short_is_finished_and_has_one_line(
    days: Days, monkeypatch: pytest.MonkeyPatch
):
    days.ask(1, day=0)
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(days.site.buffer.old, "remove", _killed)
        days.ask(2, day=40)
    assert days.rounds() == {1}
    days.ask(2, day=41)
    assert days.rounds() == {2}
    assert len(days.removals()) == 1


def _killed(last: object) -> None:
    raise KeyboardInterrupt


def test_a_paused_site_removes_and_a_question_without_an_answer_makes_nothing_old(days: Days):
    days.ask(1, day=0)
    days.ask(2, day=39)
    set_pause(days.policy, True)
    days.ask(9, day=40)
    assert days.rounds() == {2}
    days.ask(9, day=71)
    assert days.rounds() == set()
    set_pause(days.policy, False)
    days.ask(3, day=100)
    days.ask(4, day=102)
    assert days.rounds() == {3, 4}


def test_who_was_in_old_episodes_is_forgotten_with_the_same_descent(days: Days):
    for round in (1, 2):
        days.ask(round, day=0)
    given = (PERSONS[0], days.site.buffer, days.home)
    before = look_for(*given, days.config)
    assert before.found.lessons
    days.ask(3, day=40)
    told = forget_subject(*given, "a", days.config, clock=lambda: days.now)
    assert [one for one in told.descent.sent if one.round < 3] == list(before.descent.sent)
    assert told.erasures
    assert days.site.buffer.erasures.is_forgotten(PERSONS[0])
    assert verify_ledger(days.home / FILE).finding is None


def test_without_a_number_of_days_nothing_is_removed_or_noted(tmp_path: Path):
    days = Days(tmp_path, 0)
    with closing(days.site.buffer):
        days.ask(1, day=0)
        days.ask(2, day=10_000)
        assert days.rounds() == {1, 2}
        assert days.site.buffer.old.last_before(float("inf")) == {}
