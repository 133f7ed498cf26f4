"""A site that has served two people, and learned from it."""

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from scene_records import ENCODER, PLAIN, Clock, conversation
from test_harvest import LATER, NOON, SITE, Acting, _with

from fedse.envs.base import subject_of
from fedse.method.rollout import choose_games
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse_serve.harvest import Service
from fedse_serve.records import Records, open_records
from fedse_serve.rows import FeedbackRow, NewSession
from tests.federation.scene import make_scene

ANN, BO = "Ann Lee", "Bo"


def records_of(home: Path) -> Records:
    seal = seal_beside(home / "buffer.db")
    given: dict[str, Any] = {"redact": None, "held_out": 0.0, "clock": Clock()}
    return open_records(home / "service", seal=seal, **given)


def learned(home: Path) -> None:
    """The site has served Ann and Bo, one session each and one that is held out, and learned."""
    with closing(records_of(home)) as records:
        for person in (ANN, BO):
            for name in ("learned", "held"):
                session = f"{name} {person}"
                new = NewSession(session, person, "shop", "stable", PLAIN, True)
                records.begin_all([new])
                (turn,) = conversation((f"planted {session}", "hi"))
                records.add_turns(
                    [_with(turn, session=session, inference=uuid5(NAMESPACE_OID, session).hex)]
                )
                records.add_feedback([FeedbackRow("solved", True, NOON, session=session)])
                held = "UPDATE session SET held_out = 1 WHERE session = ?"
                if name == "held":
                    records.db.execute(held, (records.seal.hide(session),))
    service = Service(folder=str(home / "service"), clock=Clock(LATER))
    play = service.player(ENCODER, lambda: None)
    with closing(buffer_of(home, service)) as buffer:
        for record in ("", "home"):
            games = choose_games(service.tasks("train"), 8, seed=0, record=record)
            made = play(games, lambda: service, Acting(PLAIN), round=1, batch=8, seed=0)
            assert len(made) == 2
            buffer.record_played(made, experiment="clinics", bodies=True, record=record)
            if not record:
                buffer.add(made, experiment="clinics")
    service.records.close()


def buffer_of(home: Path, service: Service) -> Buffer:
    file = home / "buffer.db"
    return Buffer(file, subject_of=partial(subject_of, service), seal=seal_beside(file))


def learned_site(folder: Path) -> Path:
    path = make_scene(folder).join().path
    site = path / "site.toml"
    site.write_text(site.read_text() + SITE)
    learned(path)
    return path


def bytes_of(home: Path) -> bytes:
    files = [*home.glob("buffer.db*"), *(home / "service").glob("service.db*")]
    return b"".join(file.read_bytes() for file in files)
