"""The site's rules come before any work, its veto before any training; the server cannot change it.

The sites are toys: an adapter wins as many of the eight validation games as the test says.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.adapters.base import initial_adapter
from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.audit.verdict import AuditRules
from fedse.config.file import parse_config
from fedse.config.judging import SplitsSection
from fedse.config.presets import PRESETS
from fedse.config.schema import Config
from fedse.errors import ConfigError, EnvError, FedSEError, WireError
from fedse.faults import Fault
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site.answer import answer, serve
from fedse.site.door import follow_rules
from fedse.site.rules import (
    VETO_DROP,
    RuleRefusal,
    SiteRules,
    first_rules,
    in_force,
    read_rules,
    require_allowed,
    set_pause,
    write_rules,
)
from fedse.site.served import ServedSites
from fedse.site.steps import Asked
from fedse.site.worker import exchange
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats, Fitted, Trajectory

SPEC = toy_spec()
ROUNDS = 5
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": ROUNDS},
        "rollout": {"episodes": 6},
        "eval": {"episodes": 8},
        "splits": {"validation": 0.3},
        # Of 31 tasks eight are for validation.
        "clients": [
            {"name": n, "env": "fedse.testing:CoinWorld", "options": {"tasks": 31}} for n in "ab"
        ],
    }
)


def request_for(sent: Adapter, round: int = 1, **changes: object) -> Question:
    fields: dict[str, object] = {
        "experiment": CONFIG.run.name,
        "round": round,
        "agreed": CONFIG.agreed_digest(),
        "spec": SPEC.identity,
        "adapter": sent.digest,
        "kind": "train",
        "evaluate": True,
    }
    return Question.model_validate({**fields, **changes})


def silent(event: str, /, **facts: object) -> None: ...


class Bench(NamedTuple):
    """A toy site with rules, and a count of what it really did."""

    site: Site
    policy: Path
    done: list[str]
    wins: dict[str, int]
    """By adapter, how many of the eight validation games it wins."""

    def ask(self, request: Question, adapter: Adapter) -> SiteReply:
        data = adapter.to_bytes()
        return answer(request, data, self.site, CONFIG, policy=self.policy, emit=silent)

    def adapter(self, wins: int) -> Adapter:
        made = toy_adapter(SPEC, len(self.wins))
        self.wins[made.digest] = wins
        return made

    def rule(self, **changes: object) -> None:
        write_rules(self.policy, read_rules(self.policy).model_copy(update=changes))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    done: list[str] = []
    wins: dict[str, int] = {}

    def make_policy(adapter: Adapter, temperature: float) -> ScriptedPolicy:
        def choose(dialogue: Dialogue, seed: int) -> str:
            first = dialogue.turns[0].observation if dialogue.turns else dialogue.observation
            # The base model, which no test has named, wins nothing unless a test says so.
            lost = first in validation[wins.get(adapter.digest, 0) :]
            return "edge" if lost else "heads"

        return ScriptedPolicy(choose, name=adapter.digest)

    site = open_toy_site(CONFIG, "a", tmp_path, clock=time.time)
    validation = [task.id for task in site.tasks("validation")]
    assert len(validation) == 8
    plain_play, plain_fit = site.play, site.fit

    def play(games, *args, **options) -> list[Trajectory]:
        done.append(f"play {games[0].record or games[0].task.split}")
        return plain_play(games, *args, **options)

    def fit(*given) -> Fitted:
        done.append("fit")
        return plain_fit(*given)

    site = replace(site, make_policy=make_policy, play=play, fit=fit)
    rules = first_rules(CONFIG, adapter_bytes=SPEC.nbytes).model_copy(
        update={"veto_games": 8, "veto_drop": None}
    )
    write_rules(tmp_path / "policy.toml", rules)
    yield Bench(site, tmp_path / "policy.toml", done, wins)
    site.buffer.close()


REFUSED: dict[str, tuple[dict[str, object], dict[str, object], int]] = {
    "an experiment the site does not allow": (
        {"experiments": ("other",)},
        {},
        Fault.OTHER_EXPERIMENT,
    ),
    "no experiment allowed": ({"experiments": ()}, {}, Fault.OTHER_EXPERIMENT),
    "a round beyond the site's": ({"max_rounds": 2}, {"round": 3}, Fault.TOO_MANY_ROUNDS),
    "a round beyond the agreed ones": ({"max_rounds": 99}, {"round": 6}, Fault.TOO_MANY_ROUNDS),
    "round zero": ({}, {"round": 0}, Fault.TOO_MANY_ROUNDS),
    "an evaluation far beyond": ({}, {"round": 7, "kind": "evaluate"}, Fault.TOO_MANY_ROUNDS),
    "more bytes than the site allows": (
        {"max_bytes_up": SPEC.nbytes - 1},
        {},
        Fault.TOO_MANY_BYTES,
    ),
}


@pytest.mark.parametrize(("rules", "asked", "number"), REFUSED.values(), ids=REFUSED.keys())
def test_the_rules_refuse_before_any_work(bench: Bench, rules, asked, number):
    adapter = bench.adapter(8)
    bench.rule(**rules)
    with pytest.raises(RuleRefusal) as refusal:
        bench.ask(request_for(adapter, **asked), adapter)
    assert refusal.value.exit_code == number
    assert bench.done == []


def test_what_is_allowed_is_done(bench: Bench):
    adapter = bench.adapter(8)
    got = bench.ask(request_for(adapter), adapter)
    assert (got.fault, got.stats.eval_succeeded) == (0, 8)
    assert got.adapter is not None
    assert bench.done == ["play test", "play train", "fit"]


def test_the_last_adapter_may_be_measured_after_the_last_round(bench: Bench):
    adapter = bench.adapter(3)
    got = bench.ask(request_for(adapter, round=ROUNDS + 1, kind="evaluate"), adapter)
    assert (got.fault, got.stats.eval_played, got.adapter) == (0, 8, None)


def test_a_paused_site_does_nothing_has_no_vote_and_goes_on_when_resumed(bench: Bench):
    adapter = bench.adapter(8)
    set_pause(bench.policy, True)
    assert bench.ask(request_for(adapter), adapter) == SiteReply(ClientStats(), fault=Fault.PAUSED)
    assert bench.done == []
    set_pause(bench.policy, False)
    got = bench.ask(request_for(adapter), adapter)
    assert got.fault == Fault.NONE
    assert got.adapter is not None


def test_a_pause_holds_back_even_finished_work(bench: Bench):
    adapter = bench.adapter(8)
    bench.ask(request_for(adapter), adapter)
    set_pause(bench.policy, True)
    assert bench.ask(request_for(adapter), adapter) == SiteReply(ClientStats(), fault=Fault.PAUSED)


def test_pausing_keeps_the_owners_words(bench: Bench):
    bench.policy.write_text("# ask Ann first\n" + bench.policy.read_text())
    before = read_rules(bench.policy)
    set_pause(bench.policy, True)
    assert "# ask Ann first" in bench.policy.read_text()
    assert read_rules(bench.policy) == before.model_copy(update={"pause": True})


RULES = 'experiments = ["toy"]\nmax_rounds = 5\nmax_bytes_up = 9999\n'
BROKEN = {
    "no file": None,
    "not TOML": "pause = ",
    "an unknown rule": f"{RULES}max_hours = 1\n",
    "a rule missing": RULES.replace("max_bytes_up = 9999", ""),
    "a rule of another kind": RULES.replace('["toy"]', '"toy"'),
    "text for a number": RULES.replace("5", '"5"'),
}


def test_these_rules_unbroken_can_be_read(bench: Bench):
    bench.policy.write_text(RULES)
    assert read_rules(bench.policy).max_bytes_up == 9999


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_rules_that_cannot_be_read_refuse_everything(bench: Bench, text: str | None):
    adapter = bench.adapter(8)
    bench.policy.unlink() if text is None else bench.policy.write_text(text)
    with pytest.raises(ConfigError, match=r"policy\.toml"):
        bench.ask(request_for(adapter), adapter)
    assert bench.done == []


@given(st.integers(0, 10), st.integers(0, 10), st.integers(-2, 12), st.booleans())
def test_the_server_can_only_tighten(mine: int, agreed: int, asked: int, train: bool):
    policy = SiteRules(experiments=("toy",), max_rounds=mine, max_bytes_up=SPEC.nbytes)
    run = CONFIG.run.model_copy(update={"rounds": agreed})
    config = CONFIG.model_copy(update={"run": run})
    request = request_for(toy_adapter(SPEC, 0), round=asked, kind="train" if train else "evaluate")
    try:
        require_allowed(policy, request, config, SPEC.nbytes)
        allowed = True
    except RuleRefusal:
        allowed = False
    assert allowed == (1 <= asked <= min(mine, agreed) + (not train))


def test_a_request_has_no_field_that_could_carry_a_rule():
    assert not set(Question.model_fields) & set(SiteRules.model_fields)


def test_without_a_policy_a_worker_answers_as_before(bench: Bench):
    adapter = bench.adapter(8)
    request, data = request_for(adapter), adapter.to_bytes()
    got = answer(request, data, bench.site, CONFIG, policy=None, emit=silent)
    assert got == serve(request, data, bench.site, CONFIG, emit=silent)


# (validation wins of the accepted adapter, of the next one, allowed drop) -> whether it is vetoed
DROPS = {
    "better": (2, 8, 0.25, False),
    "equal": (5, 5, 0.0, False),
    "just as much as allowed": (8, 6, 0.25, False),
    "one game more than allowed": (8, 5, 0.25, True),
    "any loss where none is allowed": (8, 7, 0.0, True),
    "everything lost but all allowed": (8, 0, 1.0, False),
    "everything lost": (8, 0, 0.5, True),
    "already nothing": (0, 0, 0.0, False),
}


@pytest.mark.parametrize(("first", "then", "drop", "veto"), DROPS.values(), ids=DROPS.keys())
def test_a_veto_is_for_a_drop_beyond_the_allowed_one(bench: Bench, first, then, drop, veto):
    bench.rule(veto_drop=drop)
    good, next_ = bench.adapter(first), bench.adapter(then)
    assert bench.ask(request_for(good, 1), good).fault == 0
    bench.done.clear()
    got = bench.ask(request_for(next_, 2), next_)
    assert got.fault == (Fault.VETOED if veto else Fault.NONE)
    assert (got.adapter is None) == veto
    assert ("fit" in bench.done) == ("play train" in bench.done) == (not veto)
    assert got.stats.eval_played == 8
    assert got.stats.validation_played == 0, "what the veto measured stays at the site"
    assert bench.done.count("play validation") == 1


def test_a_vetoed_adapter_leaves_no_trace_and_the_next_good_one_is_trained_from(bench: Bench):
    bench.rule(veto_drop=0.25)
    good, bad, again = bench.adapter(8), bench.adapter(0), bench.adapter(7)
    bench.ask(request_for(good, 1), good)
    lessons = len(bench.site.buffer)
    assert bench.ask(request_for(bad, 2), bad).fault == Fault.VETOED
    assert len(bench.site.buffer) == lessons
    got = bench.ask(request_for(again, 3), again)
    assert got.fault == Fault.NONE
    assert got.adapter is not None


def test_the_reference_is_the_last_accepted_adapter_not_the_vetoed_one(bench: Bench):
    bench.rule(veto_drop=0.25)
    for round, (wins, number) in enumerate(
        [(8, 0), (3, Fault.VETOED), (4, Fault.VETOED), (6, 0), (4, 0)], 1
    ):
        adapter = bench.adapter(wins)
        assert bench.ask(request_for(adapter, round), adapter).fault == number


def test_the_same_request_gets_the_same_answer_and_no_new_work(bench: Bench):
    bench.rule(veto_drop=0.25)
    good, bad = bench.adapter(8), bench.adapter(0)
    first = [bench.ask(request_for(good, 1), good), bench.ask(request_for(bad, 2), bad)]
    bench.done.clear()
    assert bench.ask(request_for(bad, 2), bad) == first[1]
    assert bench.ask(request_for(good, 1), good).adapter == first[0].adapter
    assert "fit" not in bench.done


def test_an_owner_who_loosens_the_rule_is_obeyed_at_once(bench: Bench):
    bench.rule(veto_drop=0.25)
    good, bad = bench.adapter(8), bench.adapter(4)
    bench.ask(request_for(good, 1), good)
    assert bench.ask(request_for(bad, 2), bad).fault == Fault.VETOED
    bench.rule(veto_drop=0.5)
    got = bench.ask(request_for(bad, 3), bad)
    assert got.fault == Fault.NONE
    assert got.adapter is not None


def test_a_veto_needs_validation_games(bench: Bench):
    bench.rule(veto_drop=0.25)
    adapter = bench.adapter(8)
    none = CONFIG.model_copy(update={"splits": SplitsSection()})
    request = request_for(adapter, agreed=none.agreed_digest())
    with pytest.raises(ConfigError, match=r"splits\.validation is 0"):
        answer(request, adapter.to_bytes(), bench.site, none, policy=bench.policy, emit=silent)
    assert bench.done == []


def test_a_veto_the_server_did_not_ask_to_measure_tells_no_numbers(bench: Bench):
    bench.rule(veto_drop=0.25)
    good, bad = bench.adapter(8), bench.adapter(0)
    bench.ask(request_for(good, 1, evaluate=False), good)
    got = bench.ask(request_for(bad, 2, evaluate=False), bad)
    assert got == SiteReply(ClientStats(), fault=Fault.VETOED)


@pytest.mark.parametrize("change", ["agreed", "spec", "adapter"])
def test_a_veto_evaluates_nothing_that_was_not_agreed(bench: Bench, change: str):
    bench.rule(veto_drop=0.25)
    adapter = bench.adapter(8)
    with pytest.raises(WireError):
        bench.ask(request_for(adapter, **{change: "0" * 64}), adapter)
    assert bench.done == []


@pytest.mark.parametrize("policy", [True, False], ids=["with rules", "without rules"])
def test_a_round_that_is_over_is_not_worked_on_again(bench: Bench, policy: bool):
    """But what is in the outbox is answered; without rules the newest can be asked anew."""
    bench = bench if policy else bench._replace(policy=None)
    first, second, other = (bench.adapter(8) for _ in range(3))
    known = bench.ask(request_for(first, 1), first)
    bench.ask(request_for(second, 3), second)
    bench.done.clear()
    for round in (1, 2):
        with pytest.raises(RuleRefusal, match=f"asked for round {round} .* is 3") as refusal:
            bench.ask(request_for(other, round), other)
        assert refusal.value.exit_code == Fault.STALE == 35
    assert bench.ask(request_for(first, 1), first) == known
    assert bench.done == []
    if not policy:
        assert bench.ask(request_for(other, 3), other).fault == 0
        assert "fit" in bench.done
        return
    with pytest.raises(RuleRefusal, match="another adapter") as refusal:
        bench.ask(request_for(other, 3), other)
    assert refusal.value.exit_code == Fault.OTHER_ADAPTER == 36
    assert bench.done == []


def test_after_the_last_evaluation_no_round_is_worked_on_again(bench: Bench):
    first, last = bench.adapter(8), bench.adapter(8)
    bench.ask(request_for(first, ROUNDS), first)
    got = bench.ask(request_for(last, ROUNDS + 1, kind="evaluate"), last)
    assert (got.fault, got.adapter) == (0, None)
    assert bench.ask(request_for(last, ROUNDS + 1, kind="evaluate"), last) == got
    with pytest.raises(RuleRefusal):
        bench.ask(request_for(last, ROUNDS), last)


def test_the_owner_may_let_a_server_go_back(bench: Bench):
    first, second, other = (bench.adapter(8) for _ in range(3))
    bench.ask(request_for(first, 1), first)
    bench.ask(request_for(second, 2), second)
    bench.rule(earlier_rounds=True)
    got = bench.ask(request_for(other, 1), other)
    assert got.fault == Fault.NONE
    assert got.adapter is not None


ORACLE = {
    "another adapter": {},
    "another adapter, only measured": {"kind": "evaluate"},
    "another adapter, only trained": {"evaluate": False},
}


@pytest.mark.parametrize("change", ORACLE.values(), ids=ORACLE.keys())
def test_a_round_is_worked_on_with_one_adapter(bench: Bench, change):
    """A server that could send many would learn from each answer what the site learned from."""
    first, other = bench.adapter(8), bench.adapter(8)
    known = bench.ask(request_for(first, 2), first)
    bench.done.clear()
    for _ in range(2):
        with pytest.raises(RuleRefusal, match="another adapter than before") as refusal:
            bench.ask(request_for(other, 2, **change), other)
        assert refusal.value.exit_code == Fault.OTHER_ADAPTER
    assert bench.done == []
    assert bench.ask(request_for(first, 2), first) == known
    assert bench.ask(request_for(other, 3), other).fault == 0, "the next round goes on"


def test_a_round_that_broke_can_be_asked_again_with_its_adapter_only(bench: Bench):
    """It is counted before the work begins, so no crash gives a second try with another."""
    first, other = bench.adapter(8), bench.adapter(8)

    def breaks(*_: object, **__: object) -> list[Trajectory]:
        raise EnvError("the world is away")

    broken = bench._replace(site=replace(bench.site, play=breaks))
    with pytest.raises(EnvError):
        broken.ask(request_for(first, 1), first)
    with pytest.raises(RuleRefusal, match="another adapter"):
        bench.ask(request_for(other, 1), other)
    assert bench.ask(request_for(first, 1), first).fault == 0


def test_a_request_that_was_never_agreed_costs_nothing(bench: Bench):
    first, other = bench.adapter(8), bench.adapter(8)
    with pytest.raises(WireError):
        bench.ask(request_for(other, 1), first)
    assert bench.ask(request_for(first, 1), first).fault == 0


def test_no_more_answers_than_max_rounds_leave_whatever_the_server_asks(bench: Bench):
    bench.rule(earlier_rounds=True)
    answers = []
    for number in range(3 * ROUNDS):
        adapter = bench.adapter(8)
        try:
            bench.ask(request_for(adapter, 1 + number % ROUNDS), adapter)
            answers.append(0)
        except RuleRefusal as refusal:
            answers.append(refusal.exit_code)
    assert answers == [0] * ROUNDS + [Fault.TOO_MANY_ROUNDS] * 2 * ROUNDS
    assert bench.done.count("fit") == ROUNDS
    last = bench.adapter(8)
    assert bench.ask(request_for(last, ROUNDS + 1, kind="evaluate"), last).fault == 0
    bench.rule(max_rounds=ROUNDS + 2)
    again = bench.adapter(8)
    assert bench.ask(request_for(again, 1), again).adapter is not None


def test_an_honest_run_fits_into_its_budget(bench: Bench):
    for round in range(1, ROUNDS + 1):
        adapter = bench.adapter(8)
        assert bench.ask(request_for(adapter, round), adapter).adapter is not None
        assert bench.ask(request_for(adapter, round), adapter).adapter is not None
    last = bench.adapter(8)
    assert bench.ask(request_for(last, ROUNDS + 1, kind="evaluate"), last).fault == 0


def test_as_many_merged_adapters_are_tried_in_a_round_as_the_gate_needs(bench: Bench):
    """The one before, the new one, and for each liar the new one without each of the votes."""
    most = 3 + CONFIG.gate.liars * (1 + len(CONFIG.clients))
    first = bench.adapter(8)
    bench.ask(request_for(first, 1), first)
    asked = {"kind": "validate", "evaluate": False}
    for _ in range(most):
        tried = bench.adapter(8)
        assert bench.ask(request_for(tried, 1, **asked), tried).fault == 0
    tried = bench.adapter(8)
    with pytest.raises(RuleRefusal, match="another adapter"):
        bench.ask(request_for(tried, 1, **asked), tried)


SKIPS = [(None, 5, True), (0, 2, True), (0, 3, False), (2, 4, True), (2, 5, False)]


@pytest.mark.parametrize(("skipped", "then", "allowed"), SKIPS)
def test_the_owner_may_bound_how_many_rounds_are_skipped(bench: Bench, skipped, then, allowed):
    bench.rule(max_skipped=skipped)
    first, next_ = bench.adapter(8), bench.adapter(8)
    assert bench.ask(request_for(first, 1), first).fault == 0
    if allowed:
        assert bench.ask(request_for(next_, then), next_).fault == 0
        return
    with pytest.raises(RuleRefusal, match=f"max_skipped is {skipped}") as refusal:
        bench.ask(request_for(next_, then), next_)
    assert refusal.value.exit_code == Fault.TOO_FAR_AHEAD == 37
    assert bench.ask(request_for(next_, 2), next_).fault == 0, "the honest round is not lost"


def test_a_sites_first_round_may_be_any(bench: Bench):
    bench.rule(max_skipped=0)
    adapter = bench.adapter(8)
    assert bench.ask(request_for(adapter, 4), adapter).fault == 0


def base_wins(bench: Bench, wins: int) -> Adapter:
    base = initial_adapter(SPEC, seed=CONFIG.run.seed)
    bench.wins[base.digest] = wins
    return base


def test_a_new_site_has_a_veto_where_there_are_games_for_it():
    with_games = first_rules(CONFIG, adapter_bytes=SPEC.nbytes)
    assert with_games.veto_drop == VETO_DROP == 0.2
    none = CONFIG.model_copy(update={"splits": SplitsSection()})
    assert first_rules(none, adapter_bytes=SPEC.nbytes).veto_drop is None


@pytest.mark.parametrize("wins", [0, 4, 6, 8])
def test_the_first_adapter_is_compared_with_the_base_model(bench: Bench, wins: int):
    bench.rule(veto_drop=0.25)
    base_wins(bench, 8)
    first = bench.adapter(wins)
    vetoed = wins < 6
    got = bench.ask(request_for(first, 1), first)
    assert got.fault == (Fault.VETOED if vetoed else Fault.NONE)
    assert (got.adapter is None) == vetoed
    assert bench.done.count("play validation") == 1
    assert bench.done.count("play validation-base") == 1


def test_small_steps_do_not_lead_below_the_base_model(bench: Bench):
    bench.rule(veto_drop=0.25)
    base_wins(bench, 6)
    faults = []
    for round, wins in enumerate((7, 6, 5, 4, 3), 1):
        adapter = bench.adapter(wins)
        faults.append(bench.ask(request_for(adapter, round), adapter).fault)
    assert faults == [0, 0, 0, 0, Fault.VETOED]
    assert bench.done.count("play validation-base") == 1, "it is measured once"


def test_the_adapter_a_run_begins_with_is_the_base_model_and_played_once(bench: Bench):
    bench.rule(veto_drop=0.0)
    base = base_wins(bench, 3)
    assert bench.ask(request_for(base, 1), base).fault == 0
    assert bench.done.count("play validation") == 1
    assert "play validation-base" not in bench.done


def test_another_experiments_rounds_do_not_count(bench: Bench):
    bench.site.buffer.outbox.finish("earlier", 9, "0" * 64, SiteReply(ClientStats(), None))
    adapter = bench.adapter(8)
    assert bench.ask(request_for(adapter, 1), adapter).fault == 0


class Wire:
    """A connection that asks one thing and keeps the answer."""

    def __init__(self, request: Question, adapter: Adapter) -> None:
        asked = {"client": None, "request": request.model_dump(mode="json")}
        self._frames = [json.dumps(asked).encode(), adapter.to_bytes()]
        self.said: list[bytes] = []

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        return self._frames.pop(0)

    def send_bytes(self, buf: bytes) -> None:
        self.said.append(buf)


@pytest.mark.parametrize(
    ("rules", "number"),
    [({"pause": True}, Fault.PAUSED), ({"max_rounds": 0}, Fault.TOO_MANY_ROUNDS), ({}, 0)],
)
def test_a_worker_says_only_the_number(bench: Bench, rules, number):
    bench.rule(**rules)
    adapter = bench.adapter(8)
    sites = ServedSites(CONFIG, ["a"], lambda _: bench.site, bench.policy)
    wire = Wire(request_for(adapter), adapter)
    exchange(wire, sites)
    said = json.loads(wire.said[0])
    assert (said["client"], said["fault"]) == (0, number)
    assert (wire.said[1] == b"") == bool(number)


def test_refusals_are_errors_of_the_tree_with_a_next_step(bench: Bench):
    error = RuleRefusal(Fault.TOO_MANY_BYTES, "an adapter has too many bytes")
    assert isinstance(error, FedSEError)
    assert "policy.toml" in error.hint


audits = st.builds(
    AuditRules,
    every=st.integers(0, 30),
    max_auc=st.floats(0, 1),
    max_tpr=st.floats(0, 1),
    max_bits=st.floats(0, 12),
)


@given(audits)
def test_a_policy_only_tightens_the_audit_of_a_preset(own: AuditRules):
    members = "".join(f'\n[[clients]]\nname = "{name}"\nenv = "maze"\n' for name in "abc")
    given = f'[privacy]\npreset = "patient-data"\n{members}'
    patients = parse_config(given, "file", ["step.units=0"])
    customers = parse_config(f'[privacy]\npreset = "customer-data"\n{members}', "file")
    rules = SiteRules(experiments=("run",), max_rounds=1, max_bytes_up=1, audit=own)
    found, least = in_force(rules, patients).audit, PRESETS["patient-data"].audit
    assert 0 < found.every <= min(least["every"], own.every or 99)
    for limit in ("max_auc", "max_tpr", "max_bits"):
        assert getattr(found, limit) == min(least[limit], getattr(own, limit))
    assert (found.shadows, found.min_episodes) == (own.shadows, own.min_episodes)
    assert in_force(rules, customers) == rules
    # No audit can judge a private step, and one that is due would keep every answer back.
    assert in_force(rules, parse_config(given, "file")) == rules


def test_the_audit_of_a_preset_is_in_force_when_a_question_comes(bench: Bench):
    seen: list[AuditRules | None] = []

    def rest(asked: Asked) -> SiteReply:
        seen.append(asked.audit)
        return SiteReply(ClientStats())

    for preset in (None, "patient-data"):
        privacy = CONFIG.privacy.model_copy(update={"preset": preset})
        config = CONFIG.model_copy(update={"privacy": privacy})
        request = request_for(bench.adapter(8))
        asked = Asked(request, b"", bench.site, config, silent, policy=bench.policy)
        follow_rules(asked, rest)
    assert [audit.every for audit in seen if audit] == [0, 10]
