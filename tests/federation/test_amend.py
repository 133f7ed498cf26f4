"""A coordinator amends what was agreed; a site keeps, shows and accepts it, or does not."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedse.adapters.base import spec_of
from fedse.cli.agreement import consent_lines
from fedse.config.agreement import SettingChange, changes_between, outside
from fedse.errors import ConfigError, FedSEError
from fedse.events import Fact
from fedse.federation.amend import Draft, amend
from fedse.federation.folder import invite
from fedse.federation.home import Home, open_home
from fedse.federation.invite import read_invite
from fedse.ledger.verifying import verify_ledger
from fedse.protocol import YES, Question
from fedse.signed import public_hex, signed_text
from fedse.site.agreements import LAST, accept, config_in, proposed
from fedse.site.consider import AMENDMENT, consider
from fedse.site.rules import read_rules, write_rules
from fedse.site.steps import Asked
from fedse.store.agreements import agreement_file, read_agreement
from fedse.store.run_folder import run_config
from tests.federation.scene import HOURS, NONCE, NOW, Scene, make_scene

LR = Draft(settings=["train.lr=0.001"], reason="the loss jumped")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path)


def shown(home: Home, body: bytes) -> bytes | None:
    """What the site answers when it is shown an amendment."""
    config = home.config
    site: Any = SimpleNamespace(client=home.card.site, home=home.path, clock=lambda: 0.0)
    question = Question(
        experiment=config.run.name,
        round=1,
        agreed=config.agreed_digest(),
        spec=home.card.spec,
        adapter="",
        kind="agree",
    )
    asked = Asked(question, body, site, config, quiet, policy=home.policy)
    return consider(asked, never).adapter


def never(asked: Asked) -> Any:
    raise AssertionError("nobody else answers")


def quiet(event: str, /, **facts: Fact) -> None:
    pass


def noon() -> float:
    return float(NOW)


def with_bounds(home: Home, **bounds: tuple[Any, ...]) -> None:
    named = {key.replace("__", "."): values for key, values in bounds.items()}
    write_rules(home.policy, read_rules(home.policy).model_copy(update={"accept": named}))


def body_of(scene: Scene, number: int = 2) -> bytes:
    return agreement_file(scene.federation.run, number).read_bytes()


def test_an_amendment_waits_for_the_owner_who_sees_what_changes(scene: Scene):
    home = scene.join()
    amend(scene.federation, LR, clock=noon)
    assert shown(home, body_of(scene)) is None
    told = "\n".join(consent_lines(open_home(home.path), home.path))
    assert "train.lr: " in told
    assert "-> 0.001" in told
    assert "the loss jumped" in told
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    assert shown(home, body_of(scene)) == YES
    assert open_home(home.path).config.train.lr == 0.001
    assert not proposed(home.path)


def test_it_holds_from_its_round_on_at_the_site_as_at_the_coordinator(scene: Scene):
    home = scene.join()
    terms, _ = amend(scene.federation, LR._replace(since=3), clock=noon)
    shown(home, body_of(scene))
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    found = [config_in(home.path, home.config, round).agreed_digest() for round in (1, 2, 3, LAST)]
    first = home.config.agreed_digest()
    assert found == [first, first, terms.agreed, terms.agreed]
    assert run_config(scene.federation.run).agreed_digest() == first


@pytest.mark.parametrize(
    ("bounds", "answer"),
    [
        ((1e-4, 1e-2), YES),
        ((1e-3, 1e-3), YES),
        ((1e-4, 1e-4), None),
        ((1e-3,), None),
        ((), None),
    ],
)
def test_the_rules_accept_within_their_bounds_only(
    scene: Scene, bounds: tuple[float, ...], answer: bytes | None
):
    home = scene.join()
    with_bounds(home, train__lr=bounds)
    amend(scene.federation, LR, clock=noon)
    assert shown(home, body_of(scene)) == answer


def test_what_the_bounds_do_not_name_waits_for_the_owner(scene: Scene):
    home = scene.join()
    with_bounds(home, train__lr=(0.0, 1.0))
    more = LR._replace(settings=[*LR.settings, "rollout.episodes=7"])
    amend(scene.federation, more, clock=noon)
    assert shown(home, body_of(scene)) is None


def test_the_bounds_count_from_what_was_accepted_last(scene: Scene):
    """Many small amendments cannot go where one large one may not."""
    home = scene.join()
    with_bounds(home, train__lr=(1e-4, 1e-2))
    for number, (lr, answer) in enumerate([(1e-3, YES), (1e-2, YES), (1e-1, None)], start=2):
        amend(scene.federation, LR._replace(settings=[f"train.lr={lr}"]), clock=noon)
        assert shown(open_home(home.path), body_of(scene, number)) == answer


def rewritten(scene: Scene, change: Callable[[dict[str, Any]], None], *, key: Any = None) -> bytes:
    """The amendment with other contents, signed by another key, or by nobody if there is none."""
    whole = json.loads(body_of(scene))
    change(whole["agreement"])
    if key is None:
        return json.dumps(whole).encode()
    whole["agreement"]["signer"] = public_hex(key)
    return signed_text(AMENDMENT, whole["agreement"], key)


def test_only_the_coordinator_of_the_invitation_can_amend(scene: Scene):
    home = scene.join()
    with_bounds(home, train__lr=(0.0, 1.0))
    amend(scene.federation, LR, clock=noon)

    def worse(fields: dict[str, Any]) -> None:
        fields["settings"]["train"]["lr"] = 0.5

    forged = [
        rewritten(scene, worse),
        rewritten(scene, worse, key=Ed25519PrivateKey.generate()),
        rewritten(scene, lambda fields: None, key=Ed25519PrivateKey.generate()),
        b"{}",
        b"x" * 1000,
    ]
    for body in forged:
        with pytest.raises(FedSEError):
            shown(home, body)
    assert not agreement_file(home.path, 2).exists()


def test_settings_that_do_not_give_the_digest_are_refused(scene: Scene):
    from fedse.federation.folder import signing_key

    home = scene.join()
    amend(scene.federation, LR, clock=noon)

    def other(fields: dict[str, Any]) -> None:
        fields["settings"]["train"]["lr"] = 0.5

    body = rewritten(scene, other, key=signing_key(scene.federation))
    with pytest.raises(ConfigError, match="digest"):
        shown(home, body)


KEYS = {
    "train.lr": st.sampled_from([1e-4, 1e-3, 0.5]),
    "train.steps": st.integers(1, 50),
    "rollout.episodes": st.integers(500, 600),
    "aggregate.deadline": st.sampled_from([61.0, 7201.0]),
    "schedule.every": st.sampled_from([10.0, 3600.0]),
    "eval.episodes": st.integers(0, 5),
    "run.rounds": st.integers(4, 1000),
}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.fixed_dictionaries({}, optional=KEYS).filter(bool))
def test_no_amendment_changes_what_is_the_sites_own(tmp_path_factory, wanted: dict[str, Any]):
    """Its rules, its own settings and its environment are as before, accepted or not."""
    scene = make_scene(tmp_path_factory.mktemp("scene"))
    home = scene.join()
    draft = Draft(settings=[f"{key}={value}" for key, value in wanted.items()], reason="x")
    terms, changes = amend(scene.federation, draft, clock=noon)
    before = {f: (home.path / f).read_bytes() for f in ("policy.toml", "site.toml", "node.key")}
    assert shown(home, body_of(scene)) is None
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    assert {file: (home.path / file).read_bytes() for file in before} == before
    after = open_home(home.path).config
    assert after.agreed_digest() == terms.agreed
    assert after.client("alpha") == home.config.client("alpha")
    for section in ("engine", "trainer", "storage", "watchdog", "redact", "privacy"):
        assert getattr(after, section) == getattr(home.config, section)
    assert {one.key for one in changes} <= {*wanted, "train.epochs"}  # unset by train.steps
    assert [one.line for one in changes_between(home.config, after)] == [c.line for c in changes]


def test_what_the_rules_forbid_cannot_be_accepted(scene: Scene):
    home = scene.join()
    amend(scene.federation, LR, clock=noon)
    shown(home, body_of(scene))
    strict = read_rules(home.policy).model_copy(
        update={"max_bytes_up": spec_of(home.config).nbytes - 1, "accept": {"train.lr": (0, 1)}}
    )
    write_rules(home.policy, strict)
    assert shown(home, body_of(scene)) is None
    with pytest.raises(ConfigError, match="max_bytes_up"):
        accept(home.path, "alpha", home.config, 2, base="", clock=noon)


def test_another_base_model_is_found_by_its_name_and_stays_in_later_amendments(scene: Scene):
    home = scene.join()
    drafts = [Draft(["model.base=tiny-five"], reason="a larger one"), LR]
    for number, draft in enumerate(drafts, start=2):
        terms, changes = amend(scene.federation, draft, clock=noon)
        assert ("model.since" in [one.key for one in changes]) == (number == 2)
        now = open_home(home.path)
        assert shown(now, body_of(scene, number)) is None
        accept(home.path, "alpha", now.config, number, base="", clock=noon)
        after = open_home(home.path).config
        assert (after.model.base, after.model.since) == ("tiny-five", 2)
        assert spec_of(after).identity == terms.spec


def test_a_base_model_that_is_not_here_cannot_be_accepted(scene: Scene):
    home = scene.join()
    amend(scene.federation, Draft(["model.base=tiny-five"], reason="larger"), clock=noon)
    shown(home, body_of(scene))
    with pytest.raises(ConfigError, match="not the base model") as refused:
        accept(home.path, "alpha", home.config, 2, base="tiny", clock=noon)
    assert "--base" in refused.value.hint
    assert proposed(home.path)


def test_an_invitation_names_the_base_model_of_the_newest_agreement(scene: Scene):
    larger = Draft(["model.base=tiny-five"], add=["gamma"], reason="a larger one")
    terms = amend(scene.federation, larger, clock=noon).terms
    file = invite(scene.federation, "gamma", nonce=NONCE, now=NOW, hours=HOURS)
    offered = read_invite(file, trusted=scene.fingerprint, now=NOW)
    assert (offered.spec, offered.base) == (terms.spec, terms.base)
    assert scene.join(home="gamma", invite=offered).config.model.base == "tiny-five"


def test_a_new_member_is_invited_to_the_amended_agreement(scene: Scene):
    home = scene.join()
    grown = Draft(add=["gamma"], reason="a third clinic")
    terms, changes = amend(scene.federation, grown, clock=noon)
    assert [(one.key, one.after) for one in changes] == [("members", ["alpha", "beta", "gamma"])]
    file = invite(scene.federation, "gamma", nonce=NONCE, now=NOW, hours=HOURS)
    offered = read_invite(file, trusted=scene.fingerprint, now=NOW)
    assert (offered.agreed, offered.members) == (terms.agreed, ("alpha", "beta", "gamma"))
    joined = scene.join(home="gamma", invite=offered)
    assert shown(joined, body_of(scene)) == YES
    assert shown(home, body_of(scene)) is None
    left = Draft(remove=["alpha"], reason="closed")
    amend(scene.federation, left, clock=noon)
    with pytest.raises(FedSEError, match="without this site"):
        shown(home, body_of(scene, 3))


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (Draft(reason="x"), "nothing that is agreed"),
        (Draft(["trainer.threads=2"], reason="x"), "nothing that is agreed"),
        (Draft(["run.name=other"], reason="x"), "keeps its name"),
        (Draft(["train.lr=0.001"], since=1, reason="x"), "at the earliest from round 2"),
        (Draft(remove=["delta"], reason="x"), "no member"),
        (Draft(add=["alpha"], reason="x"), "members are"),
        (Draft(["train.lr=-1"], reason="x"), "train.lr"),
    ],
)
def test_what_cannot_be_agreed_on_is_refused(scene: Scene, draft: Draft, words: str):
    with pytest.raises(ConfigError, match=words):
        amend(scene.federation, draft, clock=noon)
    assert not agreement_file(scene.federation.run, 2).exists()


ROLES = {"names": ["act", "plan"], "policy": "isolated"}


def test_a_site_keeps_its_own_roles_and_is_told_of_those_of_the_agent(tmp_path: Path):
    scene = make_scene(tmp_path, roles=ROLES)
    home = scene.join(roles=["plan"])
    named = ["roles.names=['ask', 'plan']"]
    terms, changes = amend(scene.federation, Draft(named, reason="x"), clock=noon)
    assert [one.line for one in changes] == [
        "model.since: 1 -> 2",
        "roles.names: act, plan -> ask, plan",
    ]
    assert all(one.about for one in changes)
    assert shown(home, body_of(scene)) is None
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    after = config_in(home.path, home.config, LAST)
    assert after.agreed_digest() == terms.agreed
    assert [one.roles for one in after.clients] == [("plan",), ()]


def test_what_everybody_has_cannot_become_a_sites_own(tmp_path: Path):
    scene = make_scene(tmp_path, roles=ROLES)
    with pytest.raises(ConfigError, match="cannot be local any more"):
        amend(scene.federation, Draft(["roles.local=['act']"], reason="x"), clock=noon)


def test_a_coordinator_that_lost_an_amendment_can_sign_it_again(scene: Scene):
    """The site is shown the newer one, and goes on with what it had until it is accepted."""
    home = scene.join()
    amend(scene.federation, LR, clock=noon)
    lost = body_of(scene)
    shown(home, lost)
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    agreement_file(scene.federation.run, 2).unlink()
    amend(scene.federation, LR._replace(settings=["train.lr=0.002"]), clock=lambda: NOW + 60.0)
    assert shown(home, body_of(scene)) is None
    assert config_in(home.path, home.config, LAST).train.lr == home.config.train.lr
    with pytest.raises(FedSEError, match="newer"):
        shown(home, lost)


def test_both_ledgers_have_it(scene: Scene):
    home = scene.join()
    amend(scene.federation, LR, clock=noon)
    shown(home, body_of(scene))
    accept(home.path, "alpha", home.config, 2, base="", clock=noon)
    shown(home, body_of(scene))
    document = read_agreement(agreement_file(home.path, 2)).digest
    for folder, kind in ((scene.federation.run, "agreement"), (home.path, "agreed")):
        verdict = verify_ledger(folder / "ledger.jsonl")
        assert verdict.finding is None
        lines = [one.facts for one in verdict.entries if one.kind == kind]
        assert [line["document"] for line in lines] == [document]


def test_bounds_of_values():
    def change(after: Any) -> SettingChange:
        return SettingChange("k", None, after, "")

    inside = [(1, (0, 2)), (0.5, (0.5, 0.5)), ("a", ("a", "b")), (True, (True, False))]
    beyond = [(3, (0, 2)), (True, (0, 2)), ("c", ("a",)), (1, (1,)), (None, (1, 2)), (1, ())]
    for value, bounds in inside:
        assert not outside([change(value)], {"k": bounds}), value
    for value, bounds in beyond:
        assert outside([change(value)], {"k": bounds}), value
