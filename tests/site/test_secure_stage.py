"""A site's part in a secure sum: the same bytes again, and nothing for another list."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.needs import needs

needs("cryptography", "Crypto")


from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.drivers.stages import introduce
from fedse.errors import ConfigError
from fedse.events import silent
from fedse.faults import Fault
from fedse.ledger.keys import new_signer
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.secure_sum.combine import SumPlan, plan_sum, with_mail
from fedse.secure_sum.directory import directory_fingerprint, read_directory
from fedse.secure_sum.member import MemberState, SumRefused, announce, share_out
from fedse.secure_sum.messages import SealedBundle, from_bytes, masked_from_bytes, to_bytes
from fedse.secure_sum.roster import Announcement, Roster, SumTerms
from fedse.site.answer import answer, serve
from fedse.site.socket_client import ask_site
from fedse.testing import open_toy_site
from fedse.types import Adapter
from tests.toys.federation import NAMES, SPEC, ServeToy, first_request, toy_config

CONFIG = with_settings(toy_config(), {"aggregate.clip": "none", "aggregate.secure": True})


class Others:
    """The other members of a sum, in memory; `beta` is the site that is looked at."""

    def __init__(self, path: Path) -> None:
        self.homes = {name: path / name for name in NAMES}
        (path / "run").mkdir()
        introduce(CONFIG, path / "run", self.homes)
        self.directory = read_directory(path / "run")

    def states(self, terms: SumTerms) -> dict[str, MemberState]:
        made = {}
        for name in NAMES:
            signer = new_signer(self.homes[name])
            assert signer
            if name != "beta":
                made[name] = announce(terms, name, signer, draw=np.random.default_rng(1).bytes)
        return made


def stage(config: Config, adapter: Adapter, name: str, /, **changes: object) -> Question:
    asked = first_request(config, adapter, kind=name, evaluate=False)
    return asked.model_copy(update=changes)


serve_stage = partial(serve, emit=silent)


def terms_in(site: Site) -> SumTerms:
    kept = site.buffer.sums.state("toy", 1)
    assert kept
    return MemberState.model_validate_json(kept).terms


def begun(site: Site, others: Others, adapter: Adapter) -> tuple[SumPlan, dict[str, MemberState]]:
    """The roster of a sum with this site in it."""
    request = first_request(CONFIG, adapter)
    reply = serve(request, adapter.to_bytes(), site, CONFIG, emit=silent)
    assert reply.adapter
    terms = terms_in(site)
    states = others.states(terms)
    own = from_bytes(Announcement, reply.adapter)
    plan = plan_sum([own, *(s.announcement for s in states.values())], terms, others.directory)
    return plan, {n: share_out(s, plan.roster, others.directory) for n, s in states.items()}


@pytest.fixture
def others(tmp_path: Path) -> Others:
    return Others(tmp_path)


@pytest.fixture
def opened(others: Others) -> Callable[[], Site]:
    return lambda: open_toy_site(CONFIG, "beta", others.homes["beta"], clock=lambda: 0.0)


def mail_of(plan: SumPlan, states: dict[str, MemberState], own: bytes) -> SumPlan:
    bundles = {name: state.bundle for name, state in states.items() if state.bundle}
    return with_mail(plan, {**bundles, "beta": from_bytes(SealedBundle, own)})


def test_a_site_that_was_killed_answers_as_before_and_never_for_another_list(
    others: Others, opened: Callable[[], Site], adapter: Adapter
):
    with closing((site := opened()).buffer):
        plan, states = begun(site, others, adapter)
        shares = serve_stage(stage(CONFIG, adapter, "shares"), to_bytes(plan.roster), site, CONFIG)
    fewer = Roster(announcements=plan.roster.announcements[:-1])
    with closing((site := opened()).buffer):
        first = stage(CONFIG, adapter, "shares")
        assert serve_stage(first, to_bytes(plan.roster), site, CONFIG) == shares
        with pytest.raises(SumRefused, match="a second roster in one round"):
            serve_stage(first, to_bytes(fewer), site, CONFIG)
        plan = mail_of(plan, states, shares.adapter or b"")
        assert plan.mail
        masked = serve_stage(stage(CONFIG, adapter, "masked"), to_bytes(plan.mail), site, CONFIG)
    fewer_mail = plan.mail.model_copy(
        update={"bundles": {n: b for n, b in plan.mail.bundles.items() if n != "gamma"}}
    )
    with closing((site := opened()).buffer):
        second = stage(CONFIG, adapter, "masked")
        assert serve_stage(second, to_bytes(plan.mail), site, CONFIG) == masked
        with pytest.raises(SumRefused, match="a second list of senders"):
            serve_stage(second, to_bytes(fewer_mail), site, CONFIG)
        encoded = site.buffer.sums.encoded("toy", 1)
        assert encoded
        assert len(masked.adapter or b"") == len(encoded) == 4 * SPEC.size
        apart = masked_from_bytes(masked.adapter or b"", SPEC.size) - masked_from_bytes(
            encoded, SPEC.size
        )
        assert np.count_nonzero(apart) == SPEC.size


def test_a_round_that_is_asked_with_another_adapter_is_not_summed(
    others: Others, opened: Callable[[], Site], adapter: Adapter
):
    with closing((site := opened()).buffer):
        plan, _ = begun(site, others, adapter)
        for wrong in ({"adapter": "0" * 64}, {"round": 2}):
            request = stage(CONFIG, adapter, "shares", **wrong)
            with pytest.raises(SumRefused):
                serve_stage(request, to_bytes(plan.roster), site, CONFIG)
        other = Adapter(SPEC, adapter.vector + np.float32(1))
        again = first_request(CONFIG, other)
        with pytest.raises(SumRefused, match="begun with another adapter"):
            serve(again, other.to_bytes(), site, CONFIG, emit=silent)


def test_rules_count_in_a_sum_too(others: Others, opened: Callable[[], Site], adapter: Adapter):
    policy = others.homes["beta"] / "policy.toml"
    rules = 'experiments = ["toy"]\nmax_rounds = 2\nmax_bytes_up = 1000\n'
    with closing((site := opened()).buffer):
        plan, _ = begun(site, others, adapter)
        given = (stage(CONFIG, adapter, "shares"), to_bytes(plan.roster), site, CONFIG)
        policy.write_text(rules + "pause = true\n")
        assert answer(*given, policy=policy, emit=silent).fault == Fault.PAUSED
        policy.write_text(rules)
        assert answer(*given, policy=policy, emit=silent).adapter


def test_over_the_socket_only_a_number_tells_of_a_refusal(
    serve_toy: ServeToy, others: Others, adapter: Adapter
):
    socket = serve_toy(CONFIG, "beta")

    def ask(request: object, data: bytes) -> SiteReply:
        fields = request.model_dump(mode="json")  # type: ignore[attr-defined]
        return ask_site(socket, fields, data, client=None, max_reply_bytes=1 << 16, timeout=20)

    told = ask(first_request(CONFIG, adapter), adapter.to_bytes())
    assert from_bytes(Announcement, told.adapter or b"").member == "beta"
    assert ask(stage(CONFIG, adapter, "shares"), b"no roster").fault == Fault.REQUEST
    later = stage(CONFIG, adapter, "shares", round=2)
    assert ask(later, b"").fault == Fault.OTHER_ROSTER


def test_a_site_without_a_directory_takes_part_in_no_sum(
    others: Others, opened: Callable[[], Site], adapter: Adapter
):
    with closing((site := opened()).buffer):
        plan, _ = begun(site, others, adapter)
        (others.homes["beta"] / "members.json").unlink()
        request, homeless = stage(CONFIG, adapter, "shares"), replace(site, home=None)
        with pytest.raises(ConfigError, match="cannot read members"):
            serve_stage(request, to_bytes(plan.roster), site, CONFIG)
        with pytest.raises(ConfigError, match="no folder of its own"):
            serve_stage(request, to_bytes(plan.roster), homeless, CONFIG)


def test_directories_are_compared_by_a_short_text(others: Others):
    known = read_directory(others.homes["beta"])
    assert directory_fingerprint(known) == directory_fingerprint(dict(reversed(known.items())))
    other = {**known, "gamma": known["beta"]}
    assert directory_fingerprint(known) != directory_fingerprint(other)
    assert len(directory_fingerprint(known)) == 32
