"""What the coordinator's console says of sites that come, fall silent, leave or cannot come."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli import connections
from fedse.cli.app import start
from fedse.cli.connections import ConnectionLines, connections_told, enrolment_lines
from fedse.cli.federation_view import FederationView, SiteView, fresh_view
from fedse.cli.phrases import waiting_text
from fedse.committed import RoundResult
from fedse.federation.folder import write_nodes
from fedse.federation.heard import FILE, HeardNode, SitePresence, write_heard
from fedse.flower.ops import serve_federation
from fedse.store.lock import locked
from fedse.store.run_folder import open_run
from fedse.testing import toy_adapter
from tests.federation.scene import Scene, make_scene

HERE = SitePresence("idle", 1.0, None, 1.0)
WORKS = SitePresence("working", 2.0, 1, 1.0)
AWAY = SitePresence("away", None, None, None)
LEFT = SitePresence("left", 5.0, None, None)


def silent(at: float) -> SitePresence:
    return SitePresence("silent", at, 1, None)


def test_only_what_changes_is_told():
    told: list[str] = []
    lines, now = ConnectionLines(tell=told.append), time.time()
    both = ("north", "south")
    nothing: list[Any] = []
    view = FederationView(
        "f", "h:1", "", True, now, 0, 3, None, both, (), nothing, nothing, "", {}, nothing
    )
    for seen in (
        {"north": AWAY, "south": AWAY},
        {"north": HERE, "south": AWAY},
        {"north": WORKS, "south": AWAY},
        {"north": WORKS, "south": HERE},
        {"north": silent(now), "south": HERE},
        {"north": HERE, "south": LEFT},
    ):
        lines.look(view._replace(sites=tuple(SiteView(n, "", one, "") for n, one in seen.items())))
    last = time.strftime("%H:%M:%S", time.localtime(now))
    assert told == [
        "waiting for 2 of 2 sites: north, south",
        "north is connected",
        "waiting for 1 of 2 sites: south",
        "south is connected",
        "all sites are connected",
        f"north is silent, last heard {last}",
        "waiting for 1 of 2 sites: north",
        "north is connected",
        "south has left",
        "waiting for 1 of 2 sites: south",
    ]


def test_a_line_names_a_few_sites():
    assert waiting_text(["south", "west"], of=5) == "waiting for 2 of 5 sites: south, west"
    assert waiting_text(list("abcdefgh"), of=9) == (
        "waiting for 8 of 9 sites: a, b, c, d, e, f and 2 more"
    )


def test_a_running_federation_is_followed(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "PERIOD", 0.01)
    scene.enrol(scene.request(scene.join()))
    federation, told = scene.federation, list[str]()
    write_nodes(federation, {"alpha": 7})
    with (
        locked(federation.path, busy="", hint=""),
        connections_told(fresh_view(federation), tell=told.append),
    ):
        until(told, "waiting for 2 of 2 sites: alpha, beta")
        write_heard(federation.path / FILE, {7: HeardNode(since=1, heard=2, tick=time.monotonic())})
        until(told, "alpha is connected")


def test_a_site_is_missed_from_the_round_on_in_which_it_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "PERIOD", 0.01)
    later = [{"name": "alpha", "env": "maze"}, {"name": "beta", "env": "maze", "joins": 2}]
    federation, told = make_scene(tmp_path, clients=later).federation, list[str]()
    with (
        locked(federation.path, busy="", hint=""),
        connections_told(fresh_view(federation), tell=told.append),
    ):
        until(told, "waiting for 1 of 1 site: alpha")
        commit_round(federation.run, 1)
        until(told, "waiting for 2 of 2 sites: alpha, beta")
    assert told == ["waiting for 1 of 1 site: alpha", "waiting for 2 of 2 sites: alpha, beta"]


def commit_round(path: Path, index: int) -> None:
    facts = {"voters": (), "stats": {}, "bytes_down": 0, "bytes_up": 0, "seconds": 0.0}
    with open_run(path) as run:
        after = run.store(toy_adapter(run.spec, index))
        run.commit(RoundResult(index=index, before="0", after=after, **facts))


def until(told: list[str], line: str) -> None:
    ends = time.monotonic() + 20
    while line not in told:
        assert time.monotonic() < ends, told
        time.sleep(0.01)


def test_who_cannot_connect_yet_is_told_with_the_next_command(scene: Scene):
    place = f"--dir {scene.federation.path}"
    nobody = "warning: nobody is enrolled, so no site can connect yet"
    enrol = f"fedse federation enrol ENROLMENT.JSON {place}"
    invite = f"not invited yet: beta; next: fedse federation invite beta {place}"
    assert list(enrolment_lines(scene.federation)) == [
        nobody,
        f"not enrolled yet: alpha; with the file that each site sends: {enrol}",
        invite,
    ]
    scene.enrol(scene.request(scene.join()))
    assert list(enrolment_lines(scene.federation)) == [invite]


def test_that_nobody_is_enrolled_is_said_before_anything_is_started(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    said: list[str] = []

    def serving(*_: object, **__: object) -> None:
        said.append(capsys.readouterr().err)
        raise KeyboardInterrupt

    monkeypatch.setattr(serve_federation, "serving", serving)
    where = ["--dir", str(scene.federation.path), "--page", "none"]
    assert start(["federation", "start", *where]) == 130
    assert said[0].startswith("warning: nobody is enrolled, so no site can connect yet\n")
