"""`fedse federation status` of a federation that is served, one that is not, and after rounds."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.cli.federation_status import is_well, status_lines
from fedse.cli.federation_view import ledger_head, view_of
from fedse.federation.folder import write_nodes
from fedse.federation.heard import FILE, HeardNode, write_heard
from fedse.ledger.verifying import verify_ledger
from fedse.store.lock import locked
from tests.federation.rounds_without_sites import run_all_rounds
from tests.federation.scene import NOW, Scene

TICK = 50.0


@pytest.fixture
def alpha(scene: Scene) -> Iterator[Scene]:
    """Alpha is enrolled, beta is not invited; the federation is served."""
    scene.enrol(scene.request(scene.join()))
    write_nodes(scene.federation, {"alpha": 7})
    with locked(scene.federation.path, busy="", hint=""):
        yield scene


def heard(scene: Scene, **facts: float) -> None:
    node = HeardNode(since=NOW - 60, heard=NOW, tick=TICK).model_copy(update=facts)
    write_heard(scene.federation.path / FILE, {7: node})


def line_of(scene: Scene, site: str, later: float = 0.0) -> str:
    (line,) = [
        one
        for one in status_lines(view_of(scene.federation, now=NOW + later, tick=TICK + later))
        if one.startswith(f"  {site} ")
    ]
    return " ".join(line.split())


def test_a_site_is_told_by_what_was_heard_of_it(alpha: Scene):
    def clock(seconds: float) -> str:
        return time.strftime("%H:%M:%S", time.localtime(seconds))

    assert line_of(alpha, "alpha") == "alpha enrolled not connected -"
    heard(alpha)
    assert line_of(alpha, "alpha") == f"alpha enrolled connected since {clock(NOW - 60)} -"
    heard(alpha, asked=NOW - 5, round=1)
    told = f"alpha enrolled working on round 1 since {clock(NOW - 5)} -"
    assert line_of(alpha, "alpha") == told
    # Ten seconds after the last sign the site is told to be silent since that sign.
    assert line_of(alpha, "alpha", 10) == f"alpha enrolled silent since {clock(NOW)} -"
    assert line_of(alpha, "beta") == "beta not invited - -"


def test_of_a_thousand_sites_those_that_are_not_well_are_listed(alpha: Scene):
    view = view_of(alpha.federation, now=NOW, tick=TICK)
    one, two = view.sites
    assert not is_well(two), "not invited"
    well = one._replace(now=one.now and one.now._replace(doing="idle", connected=NOW))
    many = [well._replace(name=f"site-{i}") for i in range(1000)]
    lines = list(status_lines(view._replace(sites=(*many, two))))
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["beta", "and"]
    assert "  and 1,000 more sites; --json has all" in lines


def test_who_has_sent_is_not_waited_for(alpha: Scene):
    heard(alpha, sent=NOW - 1, round=1)
    view = view_of(alpha.federation, now=NOW, tick=TICK)
    report = view.facts()
    assert (report["waiting_for"], report["expected"], report["serving"]) == (["beta"], 2, True)
    assert (report["connected"], report["waiting"]) == (1, "waiting for 1 of 2 sites: beta")
    assert report["waiting"] in status_lines(view)
    told = {site["name"]: site["now"] for site in report["sites"]}
    assert told["alpha"] == {
        "doing": "sent",
        "since": NOW - 1,
        "round": 1,
        "connected": NOW - 60,
    }
    assert told["beta"] is None


def test_an_answer_to_an_earlier_round_is_none_to_this_one(alpha: Scene):
    heard(alpha, sent=NOW - 1, round=0)
    assert view_of(alpha.federation, now=NOW, tick=TICK).waiting_for == ["alpha", "beta"]


def test_a_revoked_site_is_neither_expected_nor_counted(alpha: Scene):
    heard(alpha)
    assert view_of(alpha.federation, now=NOW, tick=TICK).facts()["expected"] == 2
    assert start(["federation", "revoke", "beta", "--dir", str(alpha.federation.path)]) == 0
    report = view_of(alpha.federation, now=NOW, tick=TICK).facts()
    assert (report["connected"], report["expected"]) == (1, 1)
    assert report["waiting"] == "waiting for 1 of 1 site: alpha"
    assert [site["state"] for site in report["sites"]] == ["enrolled", "revoked"]


def test_without_a_server_nobody_is_connected(scene: Scene):
    scene.enrol(scene.request(scene.join()))
    write_nodes(scene.federation, {"alpha": 7})
    heard(scene)
    view = view_of(scene.federation, now=NOW)
    assert view.serving is False
    assert {site.now for site in view.sites} == {None}
    assert "the server is not running, so no site is connected" in status_lines(view)


def test_rounds_exclusions_success_and_the_head_of_the_ledger(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    run_all_rounds(scene.federation, broken="alpha")
    assert start(["federation", "status", "--dir", str(scene.federation.path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [one["round"] for one in report["last_rounds"]] == [3, 2, 1]
    newest, *_, first = report["last_rounds"]
    assert newest["voted"] == ["beta"]
    assert first["excluded"]["alpha"].startswith("rejected:")
    assert report["quarantined"] == ["alpha"]
    assert report["expected"] == 1
    success = first["success"]
    assert success["games"] in (4, 8)
    assert success["rate"] == 0.25
    assert 0 < success["low"] < 0.25 < success["high"] < 1
    head = report["ledger"]
    assert head == verify_ledger(scene.federation.run / "ledger.jsonl").entries[-1].hash


@pytest.mark.parametrize("text", ["", "torn", "{}\n", "[]\n", "no\n"])
def test_a_ledger_without_a_whole_line_has_no_head(tmp_path: Path, text: str):
    (tmp_path / "ledger.jsonl").write_text(text)
    assert ledger_head(tmp_path / "ledger.jsonl") == ""
