"""A site forgets a person: its own files, its ledger, what it learns from next."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.adapters.base import initial_adapter
from fedse.errors import EnvError, StoreError
from fedse.ledger.chain import FILE, examine
from fedse.ledger.entries import ForgottenEntry
from fedse.ledger.record import note_erasures
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import read_ledger
from fedse.method.rollout import choose_games, demonstrate, rollout
from fedse.site.forget import Forgotten, forget_subject, look_for
from fedse.site.own_adapters import keep_adapter, kept_adapter, own_adapters
from fedse.site.retrain import RETRAINED, retrain_without
from fedse.store.buffer_key import make_key
from fedse.store.erasure import Erasure, salted
from fedse.testing import toy_adapter
from tests.needs import needs
from tests.site.people import PERSONS, answer, config, open_people

needs("cryptography")

ADA = PERSONS[0]
LATER = 4e9
"""Seconds since 1970, after all files of these tests were made."""


def forget(site, given, home: Path, name: str = ADA) -> Forgotten:
    return forget_subject(name, site.buffer, home, "a", given, clock=lambda: LATER)


def lines(home: Path):
    return examine(read_ledger(home / FILE)).entries


def test_everything_that_came_of_it_is_named_and_what_is_ours_is_gone(tmp_path: Path):
    given = config(optimizer="kept")
    with closing((site := open_people(given, tmp_path)).buffer):
        sent = {round: answer(site, given, round) for round in (1, 2, 3, 4)}
        keep_adapter(tmp_path, "global", 3, toy_adapter(site.spec, 4))
        keep_adapter(tmp_path, "personal", 3, toy_adapter(site.spec, 5))
        (tmp_path / "worker.log").write_text(f"an error about {ADA}")
        before = look_for(ADA, site.buffer, tmp_path, given)
        assert before.found.lessons
        told = forget(site, given, tmp_path)
        # Which round first met her depends on the games; all later ones descend.
        first = told.erasures[0].seen["e"]
        assert [one.round for one in told.descent.sent] == list(range(first, 5))
        assert [one.round for one in told.descent.merged] == list(range(first + 1, 5))
        assert {one.adapter for one in told.descent.merged} == {
            toy_adapter(site.spec, round).digest for round in range(first + 1, 5)
        }
        assert [one.name for one in told.descent.own] == ["global", "personal"]
        assert [one.name for one in own_adapters(tmp_path)] == ["global"]
        assert site.buffer.outbox.moments("e", before=9) is None
        assert told.elsewhere == (tmp_path / "worker.log",)
        assert told.answers == (3, 4)
        # What was answered is answered with the same bytes.
        assert answer(site, given, 4) == sent[4]


@pytest.mark.parametrize("name", ["Zoë Quill", 'Ann "Nan" Lee', "Łukasz\\"])
def test_a_name_is_found_in_other_files_as_text_and_as_json(tmp_path: Path, name: str):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        (tmp_path / "1.log").write_text(f"an error about {name}", encoding="utf-8")
        (tmp_path / "2.jsonl").write_text(json.dumps({"said": name}))
        (tmp_path / "3.jsonl").write_text(json.dumps([name], ensure_ascii=False), encoding="utf-8")
        (tmp_path / "4.log").write_text("an error about nobody")
        told = look_for(name, site.buffer, tmp_path, given)
    assert [file.name for file in told.elsewhere] == ["1.log", "2.jsonl", "3.jsonl"]


def test_the_ledger_has_one_line_without_the_name(tmp_path: Path):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        answer(site, given, 1)
        told = forget(site, given, tmp_path)
        forget(site, given, tmp_path)
        note_erasures(tmp_path, "a", site.buffer.erasures.all(), clock=lambda: LATER)
    (line,) = [line for line in lines(tmp_path) if line.kind == "forgotten"]
    assert line.facts["lessons"] == len(told.found.lessons) > 0
    assert set(line.facts) == {"mark", "lessons", "games", "parts", "seen"}
    assert ADA.encode() not in read_ledger(tmp_path / FILE)
    assert told.erasures[0].salt.encode() not in read_ledger(tmp_path / FILE)
    assert verify_ledger(tmp_path / FILE).finding is None


@settings(max_examples=20, deadline=None)
@given(name=st.text(min_size=3))
def test_no_name_is_ever_in_a_line(name: str):
    made = Erasure(
        mark=salted(name, "5a17"), salt="5a17", made=0.0, lessons=1, games=1, parts=0,
        seen={"e": 1}, exports=(name,),
    )  # fmt: skip
    assert made.is_of(name)
    facts = made.model_dump(include=set(ForgottenEntry.model_fields))
    line = ForgottenEntry(**facts).model_dump()
    # All but the mark is the same for any name.
    assert line == {"mark": made.mark, "lessons": 1, "games": 1, "parts": 0, "seen": {"e": 1}}
    assert len(made.mark) == 64


def test_an_erasure_without_its_line_is_missed_and_written_later(tmp_path: Path):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        answer(site, given, 1)
        found = site.buffer.erasures.find(ADA)
        site.buffer.erasures.forget(ADA, found, made=LATER)
        finding = verify_ledger(tmp_path / FILE).finding
        assert finding is not None
        assert "an erasure" in finding.reason
        assert forget(site, given, tmp_path).found.rows == 0
        assert verify_ledger(tmp_path / FILE).finding is None


@pytest.mark.parametrize("key", ["", "buffer.key"])
def test_what_is_learned_next_is_what_a_site_without_the_person_learns(tmp_path: Path, key: str):
    """The same lessons, games and answers, as if her tasks had never been there."""
    replies = []
    for home, without in ((tmp_path / "knew", ""), (tmp_path / "never", ADA)):
        given = config(without=without, key=key)
        home.mkdir()
        if key:
            make_key(home / key)
        with closing((site := open_people(given, home)).buffer):
            if not without:
                site.buffer.add(demonstrated(site), experiment="e")
                forget(site, given, home)
            reply = answer(site, config(without=without, key=key), 1, toy_adapter(site.spec, 7))
            replies.append((reply.adapter, reply.stats.played, reply.stats.buffered))
            tasks = [task.id for task in site.tasks("train")]
            assert len(tasks) == 16
            assert not any(site.make_env().subject(t) == ADA for t in site.tasks("test"))
    assert replies[0] == replies[1]


def demonstrated(site):
    mine = [task for task in site.tasks("train") if site.make_env().subject(task) == ADA]
    return demonstrate(choose_games(mine, 3, seed=1), site.make_env)


def test_a_site_with_nobody_left_says_so(tmp_path: Path):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        answer(site, given, 1)
        for name in PERSONS:
            forget(site, given, tmp_path, name)
        with pytest.raises(EnvError, match="were forgotten"):
            site.tasks("train")


def retrained_digest(home: Path, *, without: str, loss: str) -> str:
    """Of a site that knew her and forgot, or never knew; both learned the same of the others."""
    given = config(loss=loss)
    home.mkdir()
    with closing((site := open_people(given, home)).buffer):
        games = [game for round in (1, 2) for game in played(site, round)]
        mine = [g for g in games if site.make_env().subject(g.task) != without]
        site.buffer.record_played(mine, experiment="e", bodies=True)
        site.buffer.add([g for g in mine if g.success], experiment="e")
        if without:
            # Never knew her, but somebody of her name was forgotten here: the same question.
            empty = site.buffer.erasures.find(ADA)
            site.buffer.erasures.forget(ADA, empty._replace(seen={"e": 1}), made=LATER)
        else:
            forget(site, given, home)
        made = retrain_without(ADA, site, given, home)
        assert made.clean
        assert made.start.adapter.digest == initial_adapter(site.spec, seed=0).digest
        kept = kept_adapter(home, RETRAINED, site.spec)
        assert kept is not None
        assert kept.adapter.digest == made.adapter.digest
        return made.adapter.digest


def played(site, round: int):
    games = choose_games(site.tasks("train"), 12, seed=round)
    policy = site.make_policy(toy_adapter(site.spec, round), 1.0)
    return rollout(
        games, site.make_env, policy, round=round, batch=6, max_turns=None, seed=round,
    )  # fmt: skip


@pytest.mark.parametrize("loss", ["sft", "kto"])
def test_retraining_is_the_training_of_a_site_that_never_knew(tmp_path: Path, loss: str):
    knew = retrained_digest(tmp_path / "knew", without="", loss=loss)
    never = retrained_digest(tmp_path / "never", without=ADA, loss=loss)
    assert knew == never


def test_retraining_begins_with_the_newest_adapter_that_is_clean(tmp_path: Path):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        with pytest.raises(StoreError, match="not forgotten"):
            retrain_without(ADA, site, given, tmp_path)
        answers = [answer(site, given, round) for round in (1, 2, 3)]
        first = look_for(ADA, site.buffer, tmp_path, given).found.seen["e"]
        descended = toy_adapter(site.spec, 3)
        keep_adapter(tmp_path, "global", 2, descended)
        forget(site, given, tmp_path)
        made = retrain_without(ADA, site, given, tmp_path)
        assert (made.start.round, made.clean) == (0, True)
        newest = retrain_without(ADA, site, given, tmp_path, newest=True)
        assert (newest.start.adapter.digest, newest.clean) == (descended.digest, False)
        clean = toy_adapter(site.spec, 99)
        keep_adapter(tmp_path, "global", first - 1, clean)
        made = retrain_without(ADA, site, given, tmp_path)
        assert (made.start.adapter.digest, made.clean) == (clean.digest, True)
        # Forgetting once more removes nothing that was made since.
        os.utime(tmp_path / "own-adapters" / RETRAINED / "round-003" / "adapter_model.safetensors",
                 (LATER + 9, LATER + 9))  # fmt: skip
        forget(site, given, tmp_path)
        assert kept_adapter(tmp_path, RETRAINED, site.spec) is not None
        assert [answer(site, given, round) for round in (2, 3)] == answers[1:]


def test_a_copy_from_before_an_upgrade_is_told_and_goes_whoever_is_named(tmp_path: Path):
    given = config()
    with closing((site := open_people(given, tmp_path)).buffer):
        answer(site, given, 1)
        copy = tmp_path / "buffer.db.schema-4"
        for name in (ADA, "Nobody Known"):
            copy.write_bytes(b"what cannot be searched")
            assert look_for(name, site.buffer, tmp_path, given).elsewhere == (copy,)
            assert forget(site, given, tmp_path, name).elsewhere == ()
            assert not copy.exists()
