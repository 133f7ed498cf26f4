"""What a site does follows from when it was heard, asked and answered, in one word of a list."""

import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest

from tests.needs import needs

needs("cryptography")

from fedse.federation.folder import write_nodes
from fedse.federation.heard import (
    FILE,
    SILENT_SECONDS,
    Doing,
    HeardNode,
    presence_of,
    presences,
    read_heard,
    write_heard,
)
from fedse.store.lock import locked
from tests.federation.scene import Scene

NOW, TICK = 1000.0, 50.0
CONNECTED: tuple[Doing, ...] = ("working", "sent", "idle")
HERE = HeardNode(since=900.0, heard=NOW, tick=TICK)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (None, ("away", None, None, None)),
        (HERE, ("idle", 900.0, None, 900.0)),
        (
            HeardNode(since=900, heard=NOW, tick=TICK, asked=950, round=3, sent=940),
            ("working", 950, 3, 900),
        ),
        (HeardNode(since=900, heard=NOW, tick=TICK, sent=960, round=3), ("sent", 960, 3, 900)),
        (HeardNode(since=900, heard=NOW, tick=TICK, left=True), ("left", NOW, None, None)),
        (
            HeardNode(since=900, heard=990, tick=TICK - SILENT_SECONDS - 0.1, asked=950, round=3),
            ("silent", 990, 3, None),
        ),
        (HeardNode(since=900, heard=5, tick=TICK - SILENT_SECONDS), ("idle", 900, None, 900)),
        # Of before the machine was started anew.
        (HeardNode(since=900, heard=990, tick=TICK + 9000), ("silent", 990, None, None)),
    ],
)
def test_what_a_site_does_is_a_word(node: HeardNode | None, expected: tuple[object, ...]):
    told = presence_of(node, TICK)
    assert told == expected
    assert told.doing in get_args(Doing)
    assert (told.connected is not None) == (told.doing in CONNECTED)


def test_what_was_written_is_read_and_only_its_owner_reads_it(tmp_path: Path):
    heard = {2**64 - 1: HERE, 7: HeardNode(since=1.5, heard=2.5, tick=3.5, asked=2.0, round=4)}
    write_heard(tmp_path / FILE, heard)
    assert read_heard(tmp_path / FILE) == heard
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[1]", '{"7": 1}', '{"x": {}}', '{"7": {"since": 1}}', "\0"])
def test_a_file_that_is_not_usable_is_nobody(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)
    assert read_heard(tmp_path / FILE) == {}


def test_a_disk_that_takes_no_file_stops_nothing(tmp_path: Path):
    write_heard(tmp_path / "absent" / FILE, {7: HERE})
    assert read_heard(tmp_path / "absent" / FILE) == {}


def test_only_enrolled_sites_of_a_federation_that_is_served_are_told(scene: Scene):
    scene.enrol(scene.request(scene.join()))
    federation = scene.federation
    write_nodes(federation, {"alpha": 7, "stranger": 8})
    write_heard(federation.path / FILE, {7: HERE, 8: HERE, 9: HERE})
    assert presences(federation, TICK) == {}
    with locked(federation.path, busy="", hint=""):
        assert presences(federation, TICK) == {"alpha": presence_of(HERE, TICK)}
        write_nodes(federation, {})
        assert presences(federation, TICK) == {"alpha": presence_of(None, TICK)}


def test_the_clock_that_nobody_can_set_is_the_same_in_every_process():
    before = time.monotonic()
    asked = [sys.executable, "-c", "import time; print(time.monotonic())"]
    there = float(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    assert before <= there <= time.monotonic()
