"""Blocks that never leave a site: it acts with its own, and nobody can tell from what it sends."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedse.adapters.base import initial_adapter
from fedse.agent.policy import Policy
from fedse.aggregate.factors import request_bytes, travelling_spec, with_resting_factor
from fedse.aggregate.validate import load_checked
from fedse.blocks import block_adapter, in_blocks, span_of
from fedse.config.schema import Config
from fedse.errors import AdapterRejected
from fedse.events import silent
from fedse.faults import Fault
from fedse.method.evaluate import PERSONAL
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site.answer import serve
from fedse.site.choose_adapter import shared_adapters
from fedse.site.local_blocks import with_own_blocks
from fedse.site.own_adapters import GLOBAL, keep_adapter, kept_adapter
from fedse.store.local_blocks import KEPT
from fedse.testing import open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats
from tests.toys.federation import first_request

SPEC = in_blocks(toy_spec(), ("act", "plan"))
OWN = span_of(SPEC, "plan")


def config(**sections: Any) -> Config:
    return Config.model_validate(
        {
            "run": {"name": "toy", "rounds": 9},
            "roles": {"names": ["act", "plan"], "policy": "isolated", "local": ["plan"]},
            "rollout": {"episodes": 6},
            "eval": {"episodes": 4},
            "gate": {"episodes": 2},
            "splits": {"validation": 0.3},
            "buffer": {"demonstrations": 2},
            "clients": [
                {"name": name, "env": "fedse.testing:CoinWorld", "options": {"tasks": 16}}
                for name in ("a", "b", "c")
            ],
            **sections,
        }
    )


CONFIG = config()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing((made := opened(tmp_path)).buffer):
        yield made


def opened(home: Path, given: Config = CONFIG) -> Site:
    return open_toy_site(given, "a", home, clock=lambda: 0.0)


def sent_in(round: int, given: Config = CONFIG) -> Adapter:
    """The global adapter that enters the round; its local block is as every run begins."""
    begun = initial_adapter(SPEC, seed=given.run.seed)
    came = Adapter(SPEC, begun.vector + toy_adapter(SPEC, round).vector)
    data = request_bytes(came, given)
    part = travelling_spec(SPEC, given)
    return load_checked(lambda: with_resting_factor(data, part, begun), SPEC)


def ask(
    site: Site, round: int, given: Config = CONFIG, **changes: object
) -> tuple[Question, SiteReply]:
    adapter = sent_in(round, given)
    question = first_request(given, adapter, round=round, **changes)
    return question, serve(question, request_bytes(adapter, given), site, given, emit=silent)


def own(site: Site, *, before: int | None = None) -> bytes:
    found = site.buffer.outbox.local.newest("toy", before=before)
    return found.get("plan", b"")


def keep_own(site: Site, round: int, value: float) -> bytes:
    """The site has voted in that round, and its own block is of this number."""
    body = np.full(OWN.stop - OWN.start, value, "<f4").tobytes()
    site.buffer.outbox.finish(
        "toy", round, "0" * 64, SiteReply(ClientStats()), local={"plan": body}
    )
    return body


@pytest.mark.parametrize("factors", ["both", "b"])
def test_with_other_local_numbers_the_same_bytes_leave(tmp_path: Path, factors: str):
    """And none of them is in what leaves: its layout has no place for them."""
    given, sent, kept = config(train={"factors": factors}), [], []
    for name, value in (("one", 0.25), ("two", -3.5)):
        with closing((site := opened(tmp_path / name, given)).buffer):
            keep_own(site, 1, value)
            _, vote = ask(site, 2, given)
            sent.append((vote.adapter, ask(site, 2, given, kind="validate")[1].adapter))
            kept.append(own(site))
            assert b"act/" in (vote.adapter or b"")
            assert b"plan/" not in (vote.adapter or b"plan/")
            assert np.float32(value).tobytes() * 2 not in (vote.adapter or b"")
    assert sent[0] == sent[1]
    assert kept[0] != kept[1]


@pytest.mark.parametrize("kind", ["train", "evaluate", "validate"])
def test_it_acts_and_learns_with_its_own_and_judges_with_the_newest(site: Site, kind: str):
    """What acts next is judged; what acted before is measured and trained, whatever came since."""
    bodies = {round: keep_own(site, round, float(round)) for round in (1, 2)}
    acted: list[Adapter] = []

    def make_policy(adapter: Adapter, temperature: float) -> Policy:
        acted.append(adapter)
        return site.make_policy(adapter, temperature)

    ask(replace(site, make_policy=make_policy), 2, kind=kind)
    parts = {block_adapter(one, "plan").vector.astype("<f4").tobytes() for one in acted}
    assert parts == {bodies[2 if kind == "validate" else 1]}
    assert {block_adapter(one, "act").digest for one in acted} == {
        block_adapter(sent_in(2), "act").digest
    }


def test_a_round_goes_on_from_the_one_before_also_when_it_is_worked_on_again(site: Site):
    first = sent_in(1).vector[OWN].astype("<f4").tobytes()
    ask(site, 1)
    one = own(site)
    assert len(one) == len(first)
    assert one != first
    ask(site, 2)
    two = own(site)
    assert own(site, before=2) == one != two
    # Another question about the same round, as after a server that lost its last commit.
    ask(site, 2, evaluate=False)
    assert own(site) == two
    assert own(site, before=2) == one


def test_an_answer_that_was_stored_is_sent_again_and_moves_nothing(site: Site):
    ask(site, 1)
    first = own(site)
    question, vote = ask(site, 2)
    kept = own(site)
    assert ask(site, 2) == (question, vote)
    assert own(site) == kept != first


def test_only_the_newest_are_kept(site: Site, tmp_path: Path):
    for round in range(1, 6):
        keep_own(site, round, float(round))
    with closing(sqlite3.connect(tmp_path / "buffer.db")) as db:
        rounds = db.execute("SELECT DISTINCT round FROM local_block ORDER BY 1").fetchall()
    assert rounds == [(4,), (5,)]
    assert len(rounds) == KEPT


def test_what_an_audit_withholds_is_learned_by_nobody(site: Site):
    keep_own(site, 1, 1.0)
    withheld = SiteReply(ClientStats(), fault=Fault.WITHHELD)
    site.buffer.outbox.finish("toy", 2, "1" * 64, withheld, local=None)
    assert own(site) == own(site, before=2)


def test_with_another_base_model_they_begin_anew(site: Site):
    keep_own(site, 1, 1.0)
    anew = CONFIG.model_copy(
        update={"model": CONFIG.model.model_copy(update={"since": 2})},
    )
    begun = sent_in(2, anew)
    assert with_own_blocks(begun, site, anew).digest == begun.digest
    assert with_own_blocks(begun, site, CONFIG).digest != begun.digest


def test_a_copy_of_the_federations_adapter_has_nothing_of_the_site(tmp_path: Path):
    """So it may stay when somebody is forgotten; what acts has the site's own put in."""
    given = config(personal={"steps": 2, "every": 1})
    with closing((opened_site := opened(tmp_path, given)).buffer):
        keep = partial(keep_adapter, tmp_path)
        site = replace(opened_site, keep=keep)
        ask(site, 1, given)
        mine = own(site)
        ask(site, 2, given)
        kept = kept_adapter(tmp_path, GLOBAL, SPEC)
        assert kept is not None
        assert kept.adapter.digest == sent_in(2, given).digest
        acting = shared_adapters(site, given, tmp_path)
        newest = own(site)
    assert acting[GLOBAL].vector[OWN].tobytes() == newest != mine
    assert acting[PERSONAL].vector[OWN].tobytes() != kept.adapter.vector[OWN].tobytes()


def test_who_is_forgotten_is_forgotten_by_the_sites_own_blocks(site: Site):
    for round in (1, 2):
        keep_own(site, round, float(round))
    nobody = site.buffer.erasures.find("nobody")
    site.buffer.erasures.forget("nobody", nobody._replace(seen={"toy": 2}), made=0.0)
    assert own(site) == own(site, before=2) != b""
    site.buffer.erasures.forget("nobody", nobody._replace(seen={"toy": 1}), made=0.0)
    assert own(site) == b""


def test_a_global_adapter_with_a_local_block_is_refused(site: Site):
    whole = sent_in(1)
    question = first_request(CONFIG, whole)
    with pytest.raises(AdapterRejected):
        serve(question, whole.to_bytes(), site, CONFIG, emit=silent)
