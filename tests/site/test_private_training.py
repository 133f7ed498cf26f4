"""A site's privacy budget: charged before anything leaves, once, over everything that happens."""

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.toys import killed

needs("dp_accounting")

from fedse.audit.conduct import AuditPlan
from fedse.audit.game import AuditSubject
from fedse.audit.verdict import AuditResult, nothing_to_audit
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.errors import ConfigError, RunError, StoreError, TrainError
from fedse.events import silent
from fedse.faults import Fault
from fedse.method.site import Site
from fedse.privacy.accountant import Charge, epsilon_of
from fedse.protocol import Question, SiteReply
from fedse.site import auditing
from fedse.site.answer import serve
from fedse.site.private_training import (
    PrivacySpent,
    PrivateTraining,
    rehearsing,
    spent_with,
    units_of,
)
from fedse.store.privacy_journal import PrivacyJournal
from fedse.testing import CoinWorld, open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats, Fitted, Lessons, Task

SPEC = toy_spec()
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 9},
        "rollout": {"episodes": 10},
        "train": {"steps": 4, "optimizer": "kept"},
        "buffer": {"keep_played": False},
        "eval": {"episodes": 2},
        # Three rounds of four steps are within 10, four are not.
        "privacy": {"epsilon": 9.0, "noise": 2.0, "rate": 1.0},
        "clients": [{"name": "a", "env": "tests.site.test_private_training:Patients"}],
    }
)


class Patients(CoinWorld):
    """Every second task is about the same person."""

    def subject(self, task: Task) -> str:
        return f"person {int(task.id.rpartition('-')[2]) % 2}"


def request_for(round: int, config: Config = CONFIG, *, adapter: int = 0, **changes: object):
    fields: dict[str, object] = {
        "experiment": config.run.name,
        "round": round,
        "agreed": config.agreed_digest(),
        "spec": SPEC.identity,
        "adapter": toy_adapter(SPEC, adapter or round).digest,
        "kind": "train",
        "evaluate": False,
    }
    return Question.model_validate({**fields, **changes})


def ask(
    site: Site, round: int, config: Config = CONFIG, *, adapter: int = 0, **changes: object
) -> SiteReply:
    data = toy_adapter(SPEC, adapter or round).to_bytes()
    request = request_for(round, config, adapter=adapter, **changes)
    return serve(request, data, site, config, emit=silent)


def opened(home: Path, config: Config = CONFIG) -> Site:
    return open_toy_site(config, "a", home, clock=time.time)


def charges(site: Site) -> list[Charge]:
    return site.buffer.outbox.privacy.charges()


def told(site: Site) -> float:
    return epsilon_of(charges(site), delta=CONFIG.privacy.delta)


def test_each_round_is_charged_until_the_next_would_be_too_much(tmp_path: Path):
    site, spent = opened(tmp_path), []
    replies = [ask(site, round) for round in range(1, 6)]
    assert [reply.adapter is not None for reply in replies] == [True] * 3 + [False] * 2
    assert [reply.fault for reply in replies] == [Fault.NONE] * 3 + [Fault.PRIVACY_SPENT] * 2
    assert [charge.round for charge in charges(site)] == [1, 2, 3]
    assert told(site) <= 9 < epsilon_of([*charges(site), charges(site)[0]], delta=1e-5)
    spent = [epsilon_of(charges(site)[:n], delta=1e-5) for n in range(4)]
    assert spent == sorted(spent)


def test_a_site_that_abstains_still_measures_what_it_is_sent(tmp_path: Path):
    site = opened(tmp_path)
    for round in (1, 2, 3):
        ask(site, round)
    last = ask(site, 4, evaluate=True)
    assert (last.adapter, last.fault) == (None, Fault.PRIVACY_SPENT)
    assert last.stats.eval_played == 2


def test_a_second_experiment_starts_where_the_first_ended(tmp_path: Path):
    other = with_settings(CONFIG, {"run.name": "other"})
    first = opened(tmp_path)
    ask(first, 1)
    ask(first, 2)
    before = told(first)
    first.buffer.close()
    second = opened(tmp_path, other)
    assert told(second) == before
    assert ask(second, 1, other).adapter is not None
    assert told(second) > before
    assert ask(second, 2, other).fault == Fault.PRIVACY_SPENT


def test_the_same_question_costs_once_and_another_adapter_again(tmp_path: Path):
    site = opened(tmp_path)
    first = ask(site, 1)
    assert ask(site, 1) == first
    assert len(charges(site)) == 1
    assert ask(site, 1, adapter=7).adapter != first.adapter
    assert len(charges(site)) == 2


def test_two_sites_with_the_same_data_and_seed_have_noise_of_their_own(tmp_path: Path):
    one, other = (ask(opened(tmp_path / name), 1).adapter for name in ("one", "other"))
    assert one != other


def test_a_fit_that_was_lost_is_made_again_with_the_same_noise_and_costs_once(tmp_path: Path):
    site = opened(tmp_path)
    lost: list[Fitted] = []

    def fails(*given: object) -> Fitted:
        lost.append(site.fit(*given))
        raise RunError("out of memory")

    with pytest.raises(RunError, match="out of memory"):
        ask(replace(site, fit=fails), 1)
    assert len(charges(site)) == 1
    assert ask(site, 1).adapter == lost[0].adapter.to_bytes()
    assert len(charges(site)) == 1


def test_another_fit_never_gets_the_noise_of_a_lost_one(tmp_path: Path):
    """Two results with the same noise could be compared, and the noise would be gone."""
    site, secrets = opened(tmp_path), []

    def fails(*given: object) -> Fitted:
        course = given[-1]
        assert isinstance(course, Course)
        assert course.private
        secrets.append(course.private.secret)
        raise RunError("out of memory")

    broken = replace(site, fit=fails)
    for adapter in (1, 2):
        with pytest.raises(RunError):
            ask(broken, 1, adapter=adapter)
    more = with_settings(CONFIG, {"train.lr": 1e-3})
    with pytest.raises(RunError):
        ask(broken, 1, more, adapter=1)
    assert len(set(secrets)) == 3
    assert len(charges(site)) == 3


def test_with_the_answer_the_secret_is_gone_and_no_byte_of_it_stays(tmp_path: Path):
    site, secrets = opened(tmp_path), []

    def watched(*given: object) -> Fitted:
        course = given[-1]
        assert isinstance(course, Course)
        assert course.private
        secrets.append(course.private.secret)
        return site.fit(*given)

    reply = ask(replace(site, fit=watched), 1)
    site.buffer.close()
    assert len(secrets[0]) == 32
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or secrets[0] not in file.read_bytes()
    assert secrets[0] not in repr(reply).encode()


def test_no_answer_is_stored_beside_the_secret_of_its_noise(tmp_path: Path):
    """A crash leaves both or none."""
    site, journal = opened(tmp_path), PrivacyJournal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "forget_secrets", lambda *given, **named: 1 / 0)
        with pytest.raises(StoreError, match="division by zero"):
            ask(site, 1)
    assert site.buffer.outbox.privacy.is_under_way("toy", 1)
    assert site.buffer.outbox.newest("toy") is None
    assert ask(site, 1).adapter is not None
    assert not site.buffer.outbox.privacy.is_under_way("toy", 1)
    assert len(charges(site)) == 1


def test_an_evaluation_in_between_leaves_the_secret_of_a_lost_fit(tmp_path: Path):
    site = opened(tmp_path)
    broken = replace(site, fit=lambda *given: (_ for _ in ()).throw(RunError("lost")))
    with pytest.raises(RunError):
        ask(broken, 1)
    ask(site, 1, kind="evaluate", evaluate=True)
    ask(site, 1)
    assert len(charges(site)) == 1


def test_a_fit_that_was_answered_and_is_asked_for_anew_is_charged_again(tmp_path: Path):
    site = opened(tmp_path)
    first, again = ask(site, 1), ask(site, 1, evaluate=True)
    assert len(charges(site)) == 2
    assert first.adapter != again.adapter


def test_a_lost_fit_can_be_made_again_when_nothing_else_can(tmp_path: Path):
    site = opened(tmp_path)
    ask(site, 1)
    ask(site, 2)
    broken = replace(site, fit=lambda *given: (_ for _ in ()).throw(RunError("lost")))
    with pytest.raises(RunError):
        ask(broken, 3)
    with pytest.raises(PrivacySpent, match="round 3 would bring"):
        ask(site, 3, adapter=8)
    assert ask(site, 3).adapter is not None
    assert len(charges(site)) == 3


def test_rounds_that_were_answered_without_noise_end_the_budget(tmp_path: Path):
    """What was told then cannot be taken back, whichever came first."""
    plain = with_settings(CONFIG, {"privacy.epsilon": None})
    before, between = opened(tmp_path / "before"), opened(tmp_path / "between")
    ask(before, 1, plain)
    assert ask(before, 2).fault == Fault.PRIVACY_SPENT
    ask(between, 1)
    ask(between, 2, plain)
    assert ask(between, 3).fault == Fault.PRIVACY_SPENT
    assert told(before) == told(between) == math.inf
    assert len(charges(before)) == 1


def test_no_later_question_hides_an_answer_without_noise(tmp_path: Path):
    """A gate asks about the same round again."""
    plain = with_settings(CONFIG, {"privacy.epsilon": None})
    site = opened(tmp_path)
    ask(site, 1, plain)
    ask(site, 1, plain, adapter=8, kind="evaluate", evaluate=True)
    assert ask(site, 2).fault == Fault.PRIVACY_SPENT
    assert told(site) == math.inf


@pytest.mark.parametrize("answered", [False, True])
def test_a_charge_does_not_cover_an_answer_without_noise(tmp_path: Path, answered: bool):
    """The owner switches noise off in a round that was charged, lost or answered before."""
    plain = with_settings(CONFIG, {"privacy.epsilon": None})
    site = opened(tmp_path)
    if answered:
        ask(site, 1)
    else:
        with pytest.raises(RunError):
            ask(replace(site, fit=lambda *given: (_ for _ in ()).throw(RunError("lost"))), 1)
    assert told(site) < 10
    assert ask(site, 1, plain, adapter=8).adapter is not None
    assert ask(site, 2).fault == Fault.PRIVACY_SPENT
    assert told(site) == math.inf


def test_a_site_without_a_budget_writes_no_journal(tmp_path: Path):
    plain = with_settings(CONFIG, {"privacy.epsilon": None})
    site = opened(tmp_path)
    ask(site, 1, plain)
    assert charges(site) == []


def test_what_protected_episodes_does_not_protect_persons(tmp_path: Path):
    persons = with_settings(CONFIG, {"privacy.unit": "subject"})
    site = opened(tmp_path)
    ask(site, 1, persons)
    assert spent_with(site.buffer.outbox.privacy, CONFIG) == told(site) < math.inf
    ask(site, 2)
    assert spent_with(site.buffer.outbox.privacy, persons) == math.inf
    assert ask(site, 3, persons).fault == Fault.PRIVACY_SPENT


def test_all_episodes_about_a_person_are_one_unit(tmp_path: Path):
    site = opened(tmp_path)
    ask(site, 1)
    lessons = site.buffer.lessons("toy", 1)
    assert len(lessons) > 3
    persons = with_settings(CONFIG, {"privacy.unit": "subject"})
    units = units_of(lessons, site, persons)
    assert sorted(place for unit in units for place in unit) == list(range(len(lessons)))
    world = Patients()
    names = [{world.subject(lessons[place].task) for place in unit} for unit in units]
    assert sorted(map(sorted, names)) == [["person 0"], ["person 1"]]
    assert units_of(lessons, site, CONFIG) == tuple((place,) for place in range(len(lessons)))


def test_persons_need_a_world_that_names_them(tmp_path: Path):
    persons = with_settings(CONFIG, {"privacy.unit": "subject"})
    site = replace(opened(tmp_path), make_env=CoinWorld)
    with pytest.raises(ConfigError, match="coin does not"):
        ask(site, 1, persons)
    assert charges(site) == []
    nameless = {"name": "a", "env": "fedse.testing:CoinWorld"}
    raw = {**persons.model_dump(), "clients": [nameless]}
    with pytest.raises(ConfigError, match="coin does not"):
        opened(tmp_path / "new", Config.model_validate(raw))


def test_what_is_lacking_is_known_before_the_first_round(tmp_path: Path):
    impossible = {"privacy.noise": None, "privacy.epsilon": 1e-9, "train.steps": 10**6}
    with pytest.raises(ConfigError, match="no noise from"):
        opened(tmp_path, with_settings(CONFIG, impossible))


def test_a_site_with_nothing_to_learn_from_votes_like_any_other(tmp_path: Path):
    """Else a vote would tell that there is at least one unit."""
    idle = with_settings(CONFIG, {"rollout.episodes": 0})
    site = opened(tmp_path, idle)
    reply = ask(site, 1, idle)
    assert len(site.buffer) == 0
    assert reply.adapter is not None
    assert len(charges(site)) == 1


def test_how_long_gradients_were_is_told_at_home_and_nowhere_else(tmp_path: Path):
    told, site = list[tuple[str, dict[str, Any]]](), opened(tmp_path)
    long = iter([0.4, 1.5])
    watched = replace(site, fit=lambda *given: site.fit(*given)._replace(longest=next(long)))
    replies = []
    for round in (1, 2):
        data = toy_adapter(SPEC, round).to_bytes()
        emit = lambda event, /, **facts: told.append((event, facts))  # noqa: E731
        replies.append(serve(request_for(round), data, watched, CONFIG, emit=emit))
    (alarm,) = [facts for event, facts in told if event == "site.alarm"]
    assert (alarm["round"], alarm["alarm"]) == (1, "never-clipped")
    assert "0.4" in alarm["text"]
    assert replies[0].stats == replies[1].stats
    assert replies[0].fault == Fault.NONE


def test_of_the_numbers_only_those_of_held_out_games_leave(tmp_path: Path):
    reply = ask(opened(tmp_path), 1, evaluate=True)
    rest = reply.stats.model_dump(exclude={"steps", "eval_played", "eval_succeeded"})
    assert rest == ClientStats().model_dump(exclude={"steps", "eval_played", "eval_succeeded"})
    assert (reply.stats.steps, reply.stats.eval_played) == (4, 2)


def test_counts_can_be_sent_all_the_same_but_no_loss(tmp_path: Path):
    counted = with_settings(CONFIG, {"privacy.counts": True})
    stats = ask(opened(tmp_path), 1, counted).stats
    assert stats.played == 10
    assert stats.buffered > 0
    assert stats.loss is None


def test_what_stays_at_the_site_costs_nothing_and_tells_nothing(tmp_path: Path):
    own = with_settings(CONFIG, {"personal.steps": 5, "personal.every": 1})
    site, courses = opened(tmp_path, own), []

    def watched(*given: object) -> Fitted:
        courses.append(given[-1])
        return site.fit(*given)

    ask(site, 1, own)
    reply = ask(replace(site, fit=watched), 2, own, evaluate=True)
    kinds = [(course.stays, course.private is None) for course in courses]
    assert sorted(kinds) == [(False, False), (True, True)]
    assert reply.stats.personal_played == reply.stats.personal_home_played == 0
    assert len(charges(site)) == 2


def test_a_rehearsal_has_the_noise_of_an_answer_and_costs_nothing(tmp_path: Path):
    site, courses = opened(tmp_path), list[Course]()

    def fit(
        start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        courses.append(course)
        return site.fit(start, lessons, settings, seed, course)

    rehearse = rehearsing(replace(site, fit=fit), CONFIG, 1)
    for seed in (1, 1, 2):
        rehearse(toy_adapter(SPEC, 1), [], CONFIG.train, seed, Course())
    once, again, other = (course.private for course in courses)
    assert once
    assert again
    assert other
    assert (once.noise, once.rate, once.clip) == (2.0, 1.0, CONFIG.privacy.clip)
    assert once.secret == again.secret != other.secret
    assert charges(site) == []


def test_an_audit_learns_with_the_noise_of_an_answer_and_its_controls_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    site, courses, subjects = opened(tmp_path), list[Course](), list[AuditSubject]()

    def fit(start: Adapter, lessons, settings, seed, course: Course) -> Fitted:
        courses.append(course)
        return site.fit(start, lessons, settings, seed, course)

    def conduct(subject: AuditSubject, plan: AuditPlan, **_: object) -> AuditResult:
        subjects.append(subject)
        return nothing_to_audit(0)

    monkeypatch.setattr(auditing, "conduct_audit", conduct)
    watched = replace(site, fit=fit, probe=object())
    auditing.audit_site(toy_adapter(SPEC, 1), watched, CONFIG, AuditPlan(), round=1)
    (subject,) = subjects
    subject.learn([], CONFIG.train, 1)
    subject.learn_openly([], CONFIG.train, 1)
    assert [course.private is None for course in courses] == [False, True]
    assert charges(site) == []


def test_an_adapter_that_was_made_in_another_way_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    site = opened(tmp_path)

    def without(self: PrivateTraining, *given: object) -> Fitted:
        return site.fit(*given)

    monkeypatch.setattr(PrivateTraining, "fit", without)
    with pytest.raises(TrainError, match="without noise"):
        ask(site, 1)
    assert site.buffer.outbox.newest("toy") is None


def lived(home: Path, die_at: int = 0, *, after: bool = False) -> tuple[int, int]:
    """Three rounds are answered, unless the kernel kills the process at that statement."""

    def begin() -> Callable[[], None]:
        site = opened(home)

        def live() -> None:
            for round in (1, 2, 3):
                reply = ask(site, round)
                with (home / f"left-{round}").open("ab") as left:
                    left.write((reply.adapter or b"") + b"\n--\n")

        return live

    return killed.lived(begin, die_at, after=after)


def left(home: Path, round: int) -> set[bytes]:
    file = home / f"left-{round}"
    return set(file.read_bytes().split(b"\n--\n")[:-1]) if file.exists() else set()


def journal(home: Path) -> Sequence[Charge]:
    site = opened(home)
    try:
        return charges(site)
    finally:
        site.buffer.close()


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_whenever_it_is_killed_the_journal_knows_what_left(tmp_path: Path, kills: int):
    whole, home = tmp_path / "whole", tmp_path / "killed"
    ended, statements = lived(whole)
    assert ended == 0
    spent: dict[int, float] = {}
    for number in range(kills):
        # Points all over the three rounds, each before or after the statement is carried out.
        at = 1 + (number * statements) // kills
        home_now = home / str(number % 4)
        ended, _ = lived(home_now, at, after=number % 2 == 0)
        assert ended in (-signal.SIGKILL, 0)
        known = {charge.round for charge in journal(home_now)}
        assert {round for round in (1, 2, 3) if left(home_now, round)} <= known
        now = epsilon_of(journal(home_now), delta=1e-5)
        assert now >= spent.get(number % 4, 0.0)
        spent[number % 4] = now
    for name in {str(number % 4) for number in range(kills)}:
        assert lived(home / name)[0] == 0
        # A fit that was interrupted was made again with the same noise, and cost once.
        assert [charge.round for charge in journal(home / name)] == [1, 2, 3]
        assert all(len(left(home / name, round)) == 1 for round in (1, 2, 3))
