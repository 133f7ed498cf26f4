"""A log that grows for months stays on the disk in two parts at most, while it is written."""

from pathlib import Path

from fedse.processes.log_files import LOOK_SECONDS, LogLimit, earlier, new_log


def test_a_log_that_is_too_long_begins_anew_and_its_writer_does_not_notice(tmp_path: Path):
    log = tmp_path / "superlink.log"
    limit = LogLimit(tmp_path, most=100)
    with log.open("ab", buffering=0) as writer:
        for minute in range(30):
            writer.write(b"%02d minutes\n" % minute)
            limit.look(minute * LOOK_SECONDS)
            assert log.stat().st_size <= 110
    kept = earlier(log).read_bytes() + log.read_bytes()
    assert kept == b"".join(b"%02d minutes\n" % m for m in range(20, 30))
    assert b"\0" not in log.read_bytes()


def test_a_short_log_and_what_is_no_log_stay_as_they_are(tmp_path: Path):
    (tmp_path / "short.log").write_bytes(b"x" * 100)
    (tmp_path / "ledger.jsonl").write_bytes(b"x" * 1000)
    LogLimit(tmp_path, most=100).look(0.0)
    assert {f.name: f.stat().st_size for f in tmp_path.iterdir()} == {
        "short.log": 100,
        "ledger.jsonl": 1000,
    }


def test_it_looks_once_a_minute(tmp_path: Path):
    limit = LogLimit(tmp_path, most=1)
    limit.look(0.0)
    (tmp_path / "a.log").write_bytes(b"xx")
    limit.look(LOOK_SECONDS - 1)
    assert (tmp_path / "a.log").stat().st_size == 2
    limit.look(LOOK_SECONDS)
    assert (tmp_path / "a.log").stat().st_size == 0


def test_with_an_old_log_goes_what_was_before_it(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("fedse.processes.log_files.KEPT_LOGS", 2)
    for _ in range(3):
        log = new_log(tmp_path, "run")
        log.write_text("x")
        earlier(log).write_text("y")
    names = {f.name for f in tmp_path.iterdir()}
    assert names == {"run-2.log", "run-2.log.1", "run-3.log", "run-3.log.1"}
