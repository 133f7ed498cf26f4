"""A damaged file of any kind is named, with an exit code of its own and the way back, which works.

Each file is cut in half, filled with zeros, and changed in one byte. What is done to it afterwards
is what the hint says: a command, or the copy of a backup.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needs

needs("flwr", "openssl", "jq")

from fedse.cli.app import start
from fedse.cli.federation_view import view_of
from fedse.errors import FedSEError
from fedse.federation.folder import open_federation
from fedse.federation.home import open_home
from fedse.federation.renewal import require_fitting_keys
from fedse.ledger.entries import answer_entry
from fedse.ledger.record import note_answer, require_answers
from fedse.ledger.verifying import verify_ledger
from fedse.method.rollout import choose_games, demonstrate
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.store.run_folder import open_run
from fedse.testing import CoinWorld
from fedse.types import ClientStats
from tests.federation.rounds_without_sites import run_all_rounds
from tests.federation.scene import make_scene

EXPERIMENT = "clinics"
GUIDE = Path(__file__).parents[2] / "docs/how-to/operate.md"


def make_whole(place: Path) -> Path:
    """A coordinator with three committed rounds and a site that has answered two."""
    scene = make_scene(place)
    home = scene.join()
    scene.enrol(scene.request(home))
    run_all_rounds(scene.federation)
    games = choose_games(CoinWorld(tasks=40).tasks("train"), 40, seed=1)
    with closing(Buffer(home.path / "buffer.db")) as buffer:
        buffer.add(demonstrate(games, CoinWorld), experiment=EXPERIMENT)
        for round in (1, 2):
            key, reply = (EXPERIMENT, round, "a" * 64), SiteReply(ClientStats(), b"adapter")
            buffer.outbox.finish(*key, reply)
            entry = answer_entry(key, reply, received="0" * 64, bytes_down=7)
            note_answer(home.path, "alpha", entry, fresh=True, clock=time.time)
    return place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


class Outcome(NamedTuple):
    code: int
    said: str
    hint: str


Act = Callable[[Path], object]


def outcome(act: Act, place: Path) -> Outcome:
    try:
        act(place)
    except FedSEError as error:
        return Outcome(error.exit_code, str(error), error.hint)
    return Outcome(0, "", "")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def zeroed(data: bytes) -> bytes:
    return bytes(len(data))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


# What meets the damage.


def status(place: Path) -> None:
    view_of(open_federation(place / "federation"), now=time.time())


def serve_keys(place: Path) -> None:
    require_fitting_keys(open_federation(place / "federation"))


def load_adapter(place: Path) -> None:
    with closing(open_run(place / "federation" / "run")) as run:
        run.adapter(3)


def take_part(place: Path) -> None:
    open_home(place / "home")


def learn(place: Path) -> None:
    with closing(Buffer(place / "home" / "buffer.db")) as buffer:
        assert len(list(buffer.lessons(EXPERIMENT, 9))) == 40 or (place / "mended").exists()
        buffer.outbox.finished(EXPERIMENT, 2, "a" * 64)
    require_answers(place / "home")


def answer_again(place: Path) -> None:
    key, reply = (EXPERIMENT, 2, "a" * 64), SiteReply(ClientStats(), b"adapter")
    entry = answer_entry(key, reply, received="0" * 64, bytes_down=7)
    note_answer(place / "home", "alpha", entry, fresh=False, clock=time.time)


def verify(place: Path) -> None:
    verify_ledger(place / "home" / "ledger.jsonl")


def go_on(place: Path) -> None:
    run_all_rounds(open_federation(place / "federation"))


def by(*words: str) -> Act:
    """A command; its failure is told as its error."""

    def run(place: Path) -> None:
        assert start([word.format(place=place) for word in words]) == 0

    return run


def shell(line: str) -> Act:
    def run(place: Path) -> None:
        search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": search}
        subprocess.run(line, shell=True, cwd=place, check=True, env=environment)

    return run


def put_back(place: Path, file: str, *, whole: Path | None = None) -> None:
    source = (whole or BACKUP[0]) / file
    shutil.copy(source, place / file)


BACKUP: list[Path] = []


def restore(*files: str) -> Act:
    return lambda place: [put_back(place, file) for file in files]


class Kind(NamedTuple):
    name: str
    file: str
    meet: Act
    recover: Act
    hinted: str
    """A part of the hint."""
    always: bool = True
    """Whether even one changed byte is noticed."""
    lenient: bool = False
    """Whether one that was cut may be as good as whole: what is lost is made again, or unset."""


RUN = "federation/run"
KEYS = "federation/keys"
NEWEST = "newest adapter"
KINDS = [
    Kind("run database", f"{RUN}/state.db", go_on, restore(f"{RUN}/state.db"), "backup", False),
    Kind("adapter", NEWEST, load_adapter, lambda place: put_back_newest(place), "backup"),
    Kind("run card", f"{RUN}/run.json", status, restore(f"{RUN}/run.json"), "backup", False),
    Kind(
        "settings",
        f"{RUN}/config.resolved.toml",
        status,
        shell(f"fedse config show {RUN}/config.toml > new && mv new {RUN}/config.resolved.toml"),
        "fedse config show",
    ),
    Kind(
        "ledger",
        f"{RUN}/ledger.jsonl",
        go_on,
        restore(f"{RUN}/ledger.jsonl"),
        "move",
        lenient=True,
    ),
    Kind(
        "site's ledger",
        "home/ledger.jsonl",
        answer_again,
        restore("home/ledger.jsonl"),
        "move",
        lenient=True,
    ),
    Kind("ledger key", "home/ledger.key", answer_again, restore("home/ledger.key"), "backup"),
    Kind(
        "ledger's public key",
        "home/ledger.pub",
        verify,
        shell("openssl pkey -pubout -in home/ledger.key -out home/ledger.pub"),
        "openssl pkey",
        False,
    ),
    Kind(
        "federation card",
        "federation/federation.toml",
        status,
        restore("federation/federation.toml"),
        "backup",
        False,
    ),
    Kind(
        "list of sites",
        "federation/enrolment.json",
        status,
        restore("federation/enrolment.json"),
        "backup",
        False,
    ),
    Kind(
        "certificate",
        f"{KEYS}/server.pem",
        serve_keys,
        by("federation", "renew", "--dir", "{place}/federation"),
        "fedse federation renew",
    ),
    Kind(
        "server's key",
        f"{KEYS}/server.key",
        serve_keys,
        by("federation", "renew", "--new-key", "--dir", "{place}/federation"),
        "fedse federation renew",
    ),
    Kind(
        "authority",
        f"{KEYS}/ca.crt",
        serve_keys,
        shell(f"cp home/ca.crt {KEYS}/ca.crt"),
        "copy ca.crt",
    ),
    Kind(
        "signing key",
        f"{KEYS}/signing.key",
        lambda place: invite(place),
        restore(f"{KEYS}/signing.key"),
        "backup",
    ),
    Kind("site card", "home/site.toml", take_part, restore("home/site.toml"), "", False),
    Kind("agreed settings", "home/experiment.toml", take_part, restore("home/experiment.toml"), ""),
    Kind(
        "site's rules",
        "home/policy.toml",
        take_part,
        restore("home/policy.toml"),
        "",
        always=False,
        lenient=True,
    ),
    Kind("node key", "home/node.key", take_part, restore("home/node.key"), "backup"),
    Kind(
        "node's public key",
        "home/node.pub",
        take_part,
        shell("chmod 600 home/node.key && ssh-keygen -y -f home/node.key > home/node.pub"),
        "ssh-keygen -y",
    ),
    Kind(
        "site's authority",
        "home/ca.crt",
        take_part,
        shell("jq --raw-output .invite.ca federation/invites/alpha.invite.json > home/ca.crt"),
        "jq --raw-output .invite.ca",
    ),
    Kind("buffer and outbox", "home/buffer.db", learn, restore("home/buffer.db"), "backup", False),
    Kind(
        "invitation",
        "federation/invites/alpha.invite.json",
        lambda place: read(place),
        restore("federation/invites/alpha.invite.json"),
        "send the file again",
    ),
    Kind(
        "enrolment request",
        "home/enrolment.json",
        lambda place: request(place),
        restore("home/enrolment.json"),
        "again",
        False,
    ),
]


def invite(place: Path) -> None:
    from fedse.federation import folder

    federation, now = open_federation(place / "federation"), int(time.time())
    folder.invite(federation, "beta", nonce="n" * 16, now=now, hours=1)


def read(place: Path) -> None:
    from fedse.federation.invite import read_invite

    trusted = open_federation(place / "federation").card.fingerprint
    file = place / "federation" / "invites" / "alpha.invite.json"
    read_invite(file, trusted=trusted, now=time.time())


def request(place: Path) -> None:
    from fedse.federation.rotation import read_either

    read_either(place / "home" / "enrolment.json")


def newest(place: Path) -> Path:
    with closing(open_run(place / "federation" / "run")) as run:
        return run.blob(run.digest(3))


def put_back_newest(place: Path) -> None:
    shutil.copy(newest(BACKUP[0]), newest(place))


@pytest.mark.parametrize("damage", [cut, zeroed, flipped], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damage_is_named_with_its_way_back_which_works(
    kind: Kind, damage: Callable[[bytes], bytes], place: Path, whole: Path
):
    BACKUP[:] = [whole]
    file = newest(place) if kind.file == NEWEST else place / kind.file
    assert outcome(kind.meet, place).code == 0, "whole before it is damaged"
    intact = file.read_bytes()
    file.write_bytes(damage(intact))
    code, said, hint = outcome(kind.meet, place)
    if kind.always if damage is flipped else not kind.lenient:
        assert code != 0, "noticed"
    if code:
        assert code in (2, 3, 7)
        assert file.name in said or file.name in hint
        assert hint
        assert damage is flipped or kind.hinted in hint
        kind.recover(place)
        assert outcome(kind.meet, place) == Outcome(0, "", "")


def test_a_damaged_event_costs_its_own_line(place: Path):
    log = place / RUN / "events.jsonl"
    for damage in (cut, zeroed, flipped):
        log.write_bytes(damage(log.read_bytes()))
        status(place)
        go_on(place)


def test_of_a_damaged_buffer_the_sound_pages_are_saved_as_the_guide_says(place: Path):
    """With SQLite's own program; only the episodes on the damaged page are lost."""
    needs("sqlite3")
    file = place / "home" / "buffer.db"
    games = choose_games(CoinWorld(tasks=400).tasks("train"), 400, seed=1)
    with closing(Buffer(file)) as buffer:
        buffer.add(demonstrate(games, CoinWorld), experiment=EXPERIMENT)
        lessons = {lesson.content_digest for lesson in buffer.lessons(EXPERIMENT, 9)}
    data = file.read_bytes()
    (page,) = struct.unpack_from(">H", data, 16)
    spot = data.rindex(b'"action":"heads"') // page * page
    file.write_bytes(data[:spot] + bytes(page) + data[spot + page :])
    assert "sqlite3 " in outcome(learn, place).hint
    (place / "home").rename(place / "north")
    (lines,) = re.findall(r"^```bash\n(mv north/.*?)^```", GUIDE.read_text(), re.M | re.S)
    shell(lines)(place)
    with closing(Buffer(place / "north" / "buffer.db")) as buffer:
        saved = {lesson.content_digest for lesson in buffer.lessons(EXPERIMENT, 9)}
        assert buffer.outbox.finished(EXPERIMENT, 2, "a" * 64) is not None
    assert saved < lessons
    assert len(saved) >= len(lessons) // 2


def test_a_buffer_that_is_not_the_one_the_ledger_is_about_is_refused(place: Path):
    (place / "home" / "buffer.db").unlink()
    code, said, hint = outcome(partial(lambda place: require_answers(place / "home")), place)
    assert code == 7
    assert "lacks the answer to round 2" in said
    assert "move ledger.jsonl away too" in hint
