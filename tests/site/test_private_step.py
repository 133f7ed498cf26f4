"""A site's part of a private step: charged before it leaves, once, with one noise only."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs
from tests.toys import killed

needs("cryptography", "Crypto", "dp_accounting")

from fedse.adapters.base import initial_adapter
from fedse.aggregate.factors import request_bytes
from fedse.audit.conduct import AuditPlan
from fedse.blocks import in_blocks, span_of
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.course import GradientSum
from fedse.drivers.stages import introduce
from fedse.errors import ConfigError, RunError, TrainError
from fedse.events import silent
from fedse.faults import Fault
from fedse.method.site import Site
from fedse.privacy.accountant import Charge
from fedse.protocol import Question, SiteReply
from fedse.secure_sum.fixed_point import Whole
from fedse.secure_sum.messages import masked_from_bytes
from fedse.secure_sum.private_step import StepForm, encode_step, step_form
from fedse.site import private_step
from fedse.site.answer import serve
from fedse.site.auditing import audit_site
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import ClientStats

SPEC, NAMES = toy_spec(), "abc"
CONFIG = Config.model_validate(
    {
        "run": {"name": "toy", "rounds": 9},
        "rollout": {"episodes": 10},
        "buffer": {"keep_played": False},
        "eval": {"episodes": 2},
        "aggregate": {"secure": True, "clip": "none"},
        "step": {"units": 20, "clip": 0.5, "noise": 2.0},
        # Three rounds with noise 2 are within 4, four are not.
        "privacy": {"epsilon": 4.0},
        "clients": [{"name": name, "env": "fedse.testing:CoinWorld"} for name in NAMES],
    }
)


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """A folder with that of each site, where they know each other."""
    run = tmp_path / "run"
    run.mkdir()
    introduce(CONFIG, run, {name: tmp_path / name for name in NAMES})
    return tmp_path


def opened(homes: Path, config: Config = CONFIG) -> Site:
    return open_toy_site(config, "a", homes / "a", clock=time.time)


def question_for(round: int, config: Config = CONFIG, *, adapter: int = 0, **changes: object):
    fields: dict[str, object] = {
        "experiment": "toy",
        "round": round,
        "agreed": config.agreed_digest(),
        "spec": SPEC.identity,
        "adapter": toy_adapter(SPEC, adapter or round).digest,
        "kind": "train",
    }
    return Question.model_validate({**fields, **changes})


def ask(
    site: Site, round: int, config: Config = CONFIG, *, adapter: int = 0, **changes: object
) -> SiteReply:
    body = toy_adapter(SPEC, adapter or round).to_bytes()
    question = question_for(round, config, adapter=adapter, **changes)
    return serve(question, body, site, config, emit=silent)


def charges(site: Site) -> list[Charge]:
    return site.buffer.outbox.privacy.charges()


def numbers(site: Site, round: int) -> bytes:
    """What leaves in this round, below its masks."""
    kept = site.buffer.sums.encoded("toy", round)
    assert kept
    return kept


class Watched:
    """What the noise of each step was made of, and what it was added to."""

    def __init__(self) -> None:
        self.secrets: list[bytes] = []
        self.totals: list[np.ndarray] = []

    def encode(self, total: np.ndarray, form: StepForm, secret: bytes) -> Whole:
        self.secrets.append(secret)
        self.totals.append(total)
        return encode_step(total, form, secret)


@contextmanager
def watched() -> Iterator[Watched]:
    seen = Watched()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_step, "encode_step", seen.encode)
        yield seen


def test_a_step_is_one_release_of_all_units_and_ends_with_the_budget(homes: Path):
    site = opened(homes)
    replies = [ask(site, round) for round in range(1, 5)]
    assert [one.fault for one in replies] == [Fault.NONE] * 3 + [Fault.PRIVACY_SPENT]
    assert [one.adapter is not None for one in replies] == [True] * 3 + [False]
    kinds = [(one.round, one.rate, one.noise, one.steps) for one in charges(site)]
    assert kinds == [(round, 1.0, 2.0, 1) for round in (1, 2, 3)]


def test_what_leaves_is_the_sum_with_the_noise_of_its_secret_and_no_adapter(homes: Path):
    site = opened(homes)
    with watched() as seen:
        reply = ask(site, 1)
    (secret,), (total,) = seen.secrets, seen.totals
    form = step_form(CONFIG)
    expected = encode_step(total, form, secret)
    assert numbers(site, 1) == expected.astype("<u4").tobytes()
    # Ten games, of which some were won: each is as long as the clip.
    assert 0 < np.linalg.norm(total) * form.unit <= len(site.buffer) * form.clip
    assert len(site.buffer) > 1
    hidden = masked_from_bytes(numbers(site, 1), SPEC.size).view(np.int32) - total
    assert 0 < np.abs(hidden).max() < 12 * form.sigma
    assert numbers(site, 1) not in (reply.adapter or b"")
    assert reply.stats.model_dump(exclude={"steps"}) == ClientStats().model_dump(exclude={"steps"})


def test_a_site_without_a_unit_sends_noise_and_is_charged_like_any_other(homes: Path):
    idle = with_settings(CONFIG, {"rollout.episodes": 0})
    site = opened(homes, idle)
    with watched() as seen:
        assert ask(site, 1, idle).adapter is not None
    assert (seen.totals[0] == 0).all()
    assert len(site.buffer) == 0
    assert np.abs(masked_from_bytes(numbers(site, 1), SPEC.size).view(np.int32)).min() > 0
    assert len(charges(site)) == 1


def test_a_step_that_was_lost_is_made_again_with_the_same_noise_and_costs_once(homes: Path):
    site, begun = opened(homes), []

    def fails(*given: object) -> GradientSum:
        begun.append(len(charges(site)))
        raise RunError("out of memory")

    with pytest.raises(RunError, match="out of memory"):
        ask(replace(site, gradients=fails), 1)
    # It was on record before anything was computed.
    assert begun == [1]
    lost = site.buffer.outbox.privacy
    assert lost.is_under_way("toy", 1)
    with watched() as seen:
        ask(site, 1)
        ask(site, 1)
    assert len(seen.secrets) == len(charges(site)) == 1
    assert not lost.is_under_way("toy", 1)


def test_another_step_never_has_the_noise_of_a_lost_one(homes: Path):
    site = opened(homes)

    def fails(numbers: bytes) -> bytes:
        raise RunError("lost")

    with watched() as seen:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(private_step, "masked_to_bytes", fails)
            for adapter in (1, 2):
                with pytest.raises(RunError):
                    ask(site, 1, adapter=adapter)
            more = with_settings(CONFIG, {"step.clip": 0.25})
            with pytest.raises(RunError):
                ask(site, 1, more)
        ask(site, 1)
    assert seen.secrets[0] == seen.secrets[3]
    assert len(set(seen.secrets)) == 3
    assert len(charges(site)) == 3


def test_a_round_that_is_asked_for_anew_is_charged_and_the_first_numbers_leave(homes: Path):
    """Two noises over the same gradients would tell more than one."""
    site = opened(homes)
    first = ask(site, 1)
    kept = numbers(site, 1)
    again = ask(site, 1, evaluate=True)
    assert again.adapter == first.adapter
    assert numbers(site, 1) == kept
    assert len(charges(site)) == 2


def test_the_secret_is_gone_with_the_answer(homes: Path):
    site = opened(homes)
    with watched() as seen:
        ask(site, 1)
    site.buffer.close()
    (secret,) = seen.secrets
    assert len(secret) == 32
    for file in (homes / "a").rglob("*"):
        assert file.is_dir() or secret not in file.read_bytes()


def test_a_personal_adapter_is_made_as_ever_and_costs_nothing(homes: Path):
    own = with_settings(CONFIG, {"personal.steps": 5, "personal.every": 1})
    site, kept = opened(homes, own), []
    kept_site = replace(site, keep=lambda name, round, adapter: kept.append((name, adapter.digest)))
    ask(kept_site, 1, own)
    ask(kept_site, 2, own, evaluate=True)
    assert [name for name, _ in kept].count("personal") == 1
    assert [one.round for one in charges(site)] == [1, 2]


def test_only_what_is_learned_travels(homes: Path):
    only_b = with_settings(CONFIG, {"train.factors": "b"})
    site = opened(homes, only_b)
    part = 4 * SPEC.tensors[1].shape[0] * SPEC.tensors[1].shape[1]
    body = toy_adapter(SPEC, 1)
    begun = initial_adapter(SPEC, seed=only_b.run.seed)
    question = question_for(1, only_b).model_copy(update={"adapter": begun.digest})
    serve(question, request_bytes(begun, only_b), site, only_b, emit=silent)
    assert len(numbers(site, 1)) == part < 4 * body.spec.size


def test_a_site_without_a_budget_does_not_open(homes: Path):
    with pytest.raises(ConfigError, match=r"step\.units needs privacy\.epsilon") as raised:
        opened(homes, with_settings(CONFIG, {"privacy.epsilon": None}))
    assert "site.toml" in raised.value.hint


def test_without_a_budget_nothing_leaves_an_open_site(homes: Path):
    none = with_settings(CONFIG, {"privacy.epsilon": None})
    site = opened(homes)
    reply = ask(site, 1, none)
    assert (reply.adapter, reply.fault) == (None, Fault.PRIVACY_SPENT)
    assert charges(site) == []


def test_a_site_without_a_model_or_with_an_audit_says_so(homes: Path):
    site = opened(homes)
    with pytest.raises(ConfigError, match="no model of its own"):
        ask(replace(site, gradients=None), 1)
    with pytest.raises(ConfigError, match="a private step sends none"):
        audit_site(
            toy_adapter(SPEC, 1), replace(site, probe=object()), CONFIG, AuditPlan(), round=1
        )
    assert charges(site) == []


def test_nothing_leaves_that_was_made_in_another_way(homes: Path, monkeypatch: pytest.MonkeyPatch):
    site = opened(homes)

    def without(self: private_step.PrivateStep, *given: object):
        return site.fit(*given)

    monkeypatch.setattr(private_step.PrivateStep, "fit", without)
    with pytest.raises(TrainError, match="without noise"):
        ask(site, 1)
    assert site.buffer.outbox.newest("toy") is None


def lived(homes: Path, die_at: int = 0, *, after: bool = False) -> tuple[int, int]:
    """Rounds are answered, from the newest one on, unless the kernel kills the process there."""

    def begin() -> Callable[[], None]:
        site = opened(homes)

        def live() -> None:
            for round in range(site.buffer.outbox.newest("toy") or 1, 4):
                ask(site, round)
                with (homes / f"left-{round}").open("a") as left:
                    left.write(numbers(site, round).hex() + "\n")

        return live

    return killed.lived(begin, die_at, after=after)


def left(homes: Path) -> Sequence[set[str]]:
    files = [homes / f"left-{round}" for round in (1, 2, 3)]
    return [set(file.read_text().split()) if file.exists() else set() for file in files]


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_wherever_it_is_killed_one_round_has_one_vector_and_one_charge(tmp_path: Path, kills: int):
    def place(name: str) -> Path:
        run = tmp_path / name / "run"
        run.mkdir(parents=True)
        introduce(CONFIG, run, {one: tmp_path / name / one for one in NAMES})
        return run.parent

    whole, home = place("whole"), place("killed")
    ended, statements = lived(whole)
    assert ended == 0
    for number in range(kills):
        at = 1 + (number * statements) // kills
        assert lived(home, at, after=number % 2 == 0)[0] in (-signal.SIGKILL, 0)
        with closing(opened(home).buffer) as buffer:
            known = {one.round for one in buffer.outbox.privacy.charges()}
        assert {round for round, sent in zip((1, 2, 3), left(home), strict=True) if sent} <= known
    assert lived(home)[0] == 0
    with closing(opened(home).buffer) as buffer:
        assert [one.round for one in buffer.outbox.privacy.charges()] == [1, 2, 3]
    assert [len(sent) for sent in left(home)] == [1, 1, 1]


def test_a_site_adds_no_gradient_where_it_has_no_role_but_its_noise(homes: Path):
    """With and without the role it adds the same elsewhere, and nothing leaves out its noise."""
    spec, seen = in_blocks(SPEC, ("act", "plan")), {}
    roles = {"names": ["act", "plan"], "policy": "isolated"}
    for acting in (("act",), ("act", "plan")):
        clients = [{"name": name, "env": "fedse.testing:CoinWorld"} for name in NAMES]
        clients[0] |= {"roles": acting}
        everybody = [*clients, {**clients[1], "name": "d"}]
        given = {**CONFIG.model_dump(), "roles": roles, "clients": everybody}
        config = Config.model_validate(given)
        begun = toy_adapter(spec, 1)
        named = {"spec": spec.identity, "adapter": begun.digest}
        question = question_for(1, config).model_copy(update=named)
        home = homes / "-".join(acting)
        introduce(config, homes, {"a": home})
        with watched() as watch, closing((site := open_site_of(config, home)).buffer):
            assert serve(question, begun.to_bytes(), site, config, emit=silent).adapter
        seen[acting] = watch.totals[0].copy()
    act, plan = (span_of(spec, block) for block in ("act", "plan"))
    one, both = seen[("act",)], seen[("act", "plan")]
    assert np.array_equal(one[act], both[act])
    assert both[plan].any()
    assert not one[plan].any()


def open_site_of(config: Config, home: Path) -> Site:
    return open_toy_site(config, "a", home, clock=time.time)
