"""A site's console: every finished answer once, with its alarms, from the site's own database."""

import sqlite3
from contextlib import closing
from pathlib import Path

from fedse.config.schema import ClientSection, Config
from fedse.protocol import SiteReply
from fedse.site.answers import PAUSE_SECONDS, AnsweredRounds
from fedse.store.buffer import Buffer
from fedse.types import ClientStats

CONFIG = Config(clients=(ClientSection(name="north", env="maze"),))
WELL = ClientStats(played=8, succeeded=2, replies=9, buffered=5, loss=0.5, eval_played=4)


def finish(home: Path, round: int, stats: ClientStats) -> None:
    with closing(Buffer(home / "buffer.db")) as buffer:
        buffer.outbox.finish(CONFIG.run.name, round, "r", SiteReply(stats))


def test_each_answer_is_told_once_and_alarms_with_it(tmp_path: Path):
    told: list[str] = []
    watch = AnsweredRounds(tmp_path, CONFIG, "north", tell=told.append)
    watch.look(0.0)
    assert told == []
    finish(tmp_path, 1, WELL)
    watch.look(PAUSE_SECONDS)
    line = "held-out 0 of 4, solved 2 of 8, learned from 5, loss 0.500"
    assert told == [f"round 1 answered: {line}"]
    watch.look(2 * PAUSE_SECONDS)
    assert len(told) == 1
    finish(tmp_path, 2, WELL.model_copy(update={"unread": 9}))
    watch.look(2 * PAUSE_SECONDS + 1)
    assert len(told) == 1
    watch.look(3 * PAUSE_SECONDS)
    assert [line.partition(" ")[0] for line in told[1:]] == ["round", "ALARM"]
    assert told[-1].endswith(f"next: fedse view {tmp_path} --round 2")


def test_answers_of_an_earlier_start_are_not_told_again(tmp_path: Path):
    finish(tmp_path, 3, WELL)
    told: list[str] = []
    AnsweredRounds(tmp_path, CONFIG, "north", tell=told.append).look(0.0)
    assert told == []


def test_a_database_that_cannot_be_read_is_told_once_and_ends_nothing(tmp_path: Path):
    told: list[str] = []
    watch = AnsweredRounds(tmp_path, CONFIG, "north", tell=told.append)
    finish(tmp_path, 1, WELL)
    database = tmp_path / "buffer.db"
    whole = database.read_bytes()
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE outbox SET stats = '{'")
    for look in range(1, 4):
        watch.look(look * PAUSE_SECONDS)
    (line,) = told
    assert line.startswith(f"warning: {database} is damaged: ")
    for end in ("-wal", "-shm"):
        database.with_name(database.name + end).unlink(missing_ok=True)
    database.write_bytes(whole)
    watch.look(4 * PAUSE_SECONDS)
    assert [line.partition(":")[0] for line in told] == ["warning", "round 1 answered"]
