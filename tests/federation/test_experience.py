"""What a site has learned from and spent moves into its home in another federation, once."""

import shutil
import tomllib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from fedse.agent.prompt import as_texts
from fedse.cli.app import start
from fedse.errors import ConfigError, StoreError
from fedse.federation.experience import move_experience
from fedse.federation.home import Home, agreed_config, join
from fedse.ledger.chain import FILE, Entry, examine
from fedse.ledger.entries import answer_entry
from fedse.ledger.record import note_answer, note_erasures, require_answers
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import read_ledger
from fedse.privacy.accountant import Charge
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import encrypt_buffer, seal_beside
from fedse.types import ClientStats, Trajectory
from tests.federation.scene import BUNDLE, NOW, Scene, make_scene
from tests.needs import needs
from tests.store.older import as_schema
from tests.store.subjects import PERSONS, bytes_of, content_of, episode, fill, subject_of
from tests.store.test_erasure import forget
from tests.store.test_kept_copy import killed_before

needs("flwr")
needs("cryptography")

TOKENS = {"context_ids": (1, 2), "action_ids": (3,), "log_chances": (-0.5,)}
CHARGE = Charge("e", 2, "episode", 1.0, 2.0, 3)
OWN = """
# kept by the owner
[storage]
answers = 7
days = 30
"""


def at() -> float:
    return float(NOW)


def opened(home: Path) -> Buffer:
    return Buffer(home / "buffer.db", subject_of=subject_of, seal=seal_beside(home / "buffer.db"))


def sampled(number: int) -> Trajectory:
    """An episode with the tokens of some model."""
    given = episode(number, round=2)
    turns = tuple(turn.model_copy(update=TOKENS) for turn in given.turns)
    return given.model_copy(update={"turns": turns})


@pytest.fixture
def old(scene: Scene) -> Path:
    """A home with episodes, an erasure, an answer with noise, one without, and a fit under way."""
    home = scene.join(home="old").path
    site, _, _ = (home / "site.toml").read_text().partition("\n# This machine")
    (home / "site.toml").write_text(site + OWN)
    with closing(opened(home)) as buffer:
        fill(buffer, range(6))
        buffer.add([sampled(7), sampled(8)], experiment="e")
        forget(buffer)
        for round in (1, 2):
            if round == 2:
                buffer.outbox.privacy.charge("fit 2", CHARGE, b"unguessable 2")
            reply = SiteReply(ClientStats(steps=3), bytes([round]) * 5000)
            key = ("e", round, f"{round:064x}")
            buffer.outbox.finish(*key, reply, noise=round == 2)
            entry = answer_entry(key, reply, received=None, bytes_down=None)
            note_answer(home, "alpha", entry, fresh=True, clock=at)
        buffer.outbox.privacy.charge("fit 3", CHARGE._replace(round=3), b"unguessable 3")
        note_erasures(home, "alpha", buffer.erasures.all(), clock=at)
    assert verify_ledger(home / FILE).finding is None
    return home


@pytest.fixture
def other(tmp_path: Path) -> Scene:
    (tmp_path / "other").mkdir()
    return make_scene(tmp_path / "other", run={"name": "again", "rounds": 3})


def move(other: Scene, old: Path, home: str = "new") -> Home:
    offered = other.read()
    config = agreed_config(offered, env="maze", options={}, base=None)
    path = other.folder / home
    settle = partial(move_experience, old, home=path, config=config, clock=at)
    return join(offered, config, path, bundle=BUNDLE, settle=settle)


def lines(home: Path, kind: str) -> list[Entry]:
    return [line for line in examine(read_ledger(home / FILE)).entries if line.kind == kind]


def known(home: Path) -> list[object]:
    """All that moves, as far as a buffer tells of it."""
    with closing(opened(home)) as buffer:
        learned = [as_texts(one) for one in buffer.lessons("e", 99)]
        said = [game.episode and as_texts(game.episode) for game in buffer.played("e")]
        buffer.outbox.privacy.note_unprotected()
        erasures, charges = buffer.erasures.all(), buffer.outbox.privacy.charges()
        found = [buffer.erasures.find(person)[:2] for person in PERSONS]
        return [learned, said, erasures, charges, found, content_of(buffer)[3:6]]


def plain(old: Path) -> None:
    pass


def encrypted(old: Path) -> None:
    file = old / "site.toml"
    file.write_text(file.read_text().replace("[storage]", '[storage]\nkey = "keys/k"'))
    encrypt_buffer(old / "buffer.db", old / "keys" / "k")


def of_schema_4(old: Path) -> None:
    as_schema(4, old / "buffer.db", old / "older.db").replace(old / "buffer.db")


@pytest.mark.parametrize("made", [plain, encrypted, of_schema_4])
def test_everything_moves_but_what_belongs_to_rounds(
    old: Path, other: Scene, made: Callable[[Path], None]
):
    made(old)
    shutil.copytree(old, old.with_name("before"))
    home = move(other, old)
    assert known(home.path) == known(old.with_name("before"))
    with closing(opened(home.path)) as buffer:
        # The first round of the new federation learns from all of it, and from no token of it.
        lessons = [*buffer.lessons("again", 1)]
        assert len(lessons) == 4 + 2
        assert all(not turn.action_ids for one in lessons for turn in one.turns)
        assert buffer.erasures.is_forgotten(PERSONS[0])
        assert buffer.outbox.experiments() == ()
        assert not buffer.outbox.steps("e")
        charges = buffer.outbox.privacy.charges()
        assert sorted((one.round, one.noise) for one in charges) == [(1, 0.0), (2, 2.0), (3, 2.0)]
        assert not buffer.outbox.privacy.is_under_way("e", 3)
        assert not buffer._db.execute("SELECT 1 FROM part").fetchone()
    assert b"unguessable" not in bytes_of(home.path / "buffer.db")
    assert not list(old.glob("buffer.db*"))
    assert not list(home.path.glob(".experience*"))
    assert home.config.storage.answers == 7
    assert home.config.storage.days == 30
    assert "kept by the owner" in (home.path / "site.toml").read_text()
    assert (home.path / "keys" / "k").is_file() == (made is encrypted)


def test_both_ledgers_say_it_and_are_sound(old: Path, other: Scene):
    agreed = tomllib.loads((old / "site.toml").read_text())["agreed"]
    home = move(other, old)
    counts = {"lessons": 6, "charges": 3}
    assert [line.facts for line in lines(old, "left")] == [{"other": home.card.agreed, **counts}]
    assert [line.facts for line in lines(home.path, "brought")] == [{"other": agreed, **counts}]
    assert len(lines(home.path, "forgotten")) == 1
    for folder in (old, home.path):
        assert verify_ledger(folder / FILE).finding is None


def test_the_old_home_can_neither_spend_the_budget_again_nor_give_it_away_twice(
    old: Path, other: Scene
):
    move(other, old)
    with pytest.raises(StoreError, match="lacks the answer to round 2"):
        require_answers(old)
    with pytest.raises(StoreError, match=r"has no buffer\.db") as error:
        move(other, old, "third")
    assert "fedse ledger show" in error.value.hint
    assert not (other.folder / "third" / "site.toml").exists()


def test_two_experiments_of_one_name_are_refused_and_nothing_moves(old: Path, tmp_path: Path):
    (tmp_path / "same").mkdir()
    same = make_scene(tmp_path / "same", run={"name": "e", "rounds": 3})
    before = known(old)
    with pytest.raises(ConfigError, match="both federations name their experiment 'e'") as error:
        move(same, old)
    assert "run.name" in error.value.hint
    assert known(old) == before
    left = {path.name for path in (same.folder / "new").iterdir()}
    assert not {"site.toml", "buffer.db", ".experience"} & left


def test_a_site_that_runs_keeps_its_experience(old: Path, other: Scene):
    from fedse.store.lock import locked

    with locked(old, busy="", hint=""), pytest.raises(StoreError, match="a site is running"):
        move(other, old)
    assert (old / "buffer.db").is_file()


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_event_loses_nothing_and_the_same_command_ends_it(
    old: Path, other: Scene, every: int
):
    pristine = old.with_name("pristine")
    shutil.copytree(old, pristine)
    expected, event, ended = known(old), 0, False
    while not ended:
        shutil.rmtree(old)
        shutil.copytree(pristine, old)
        name = f"new{event}"
        ended = not killed_before(event, lambda name=name: move(other, old, name))
        home = other.folder / name
        if not (home / "site.toml").is_file():
            move(other, old, name)
        assert known(home) == expected
        assert not list(old.glob("buffer.db*"))
        assert len(lines(old, "left")) == len(lines(home, "brought")) == 1
        assert not (home / ".experience").exists()
        event += every


def test_as_a_person_types_it(old: Path, other: Scene, capsys: pytest.CaptureFixture[str]):
    from fedse.flower.messages.bundle import own_digest

    invite = other.lying(bundle=own_digest())
    words = ["site", "join", str(invite), "--home", str(other.folder / "typed"), "--env", "maze"]
    words += ["--fingerprint", other.fingerprint, "--experience", str(old)]
    before = known(old)
    assert start(words) == 0
    assert f"moved    episodes and privacy budget, from {old}" in capsys.readouterr().out
    assert known(other.folder / "typed") == before
