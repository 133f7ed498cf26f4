"""`fedse gc`: which folders it takes, what it refuses, and that it only says so when asked to."""

import json
from contextlib import closing

import pytest

from tests.needs import needs

needs("flwr")

from fedse.cli.app import start
from fedse.protocol import SiteReply
from fedse.store.buffer import Buffer
from fedse.store.lock import locked
from fedse.store.run_folder import held, open_run
from fedse.types import ClientStats
from tests.federation.rounds_without_sites import run_all_rounds
from tests.federation.scene import Scene


def kept(scene: Scene) -> list[int]:
    with closing(open_run(scene.federation.run)) as run:
        return run.kept_rounds()


def freed(capsys: pytest.CaptureFixture[str]) -> int:
    return sum(one["bytes"] for one in json.loads(capsys.readouterr().out))


def test_a_federation_keeps_what_it_is_told_to_and_goes_on(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    run_all_rounds(scene.federation)
    words = ["gc", str(scene.federation.path), "--rounds", "2", "--json"]
    assert start([*words, "--dry-run"]) == 0
    would = freed(capsys)
    assert kept(scene) == [0, 1, 2, 3]
    assert start(words) == 0
    assert freed(capsys) == would > 0
    assert kept(scene) == [0, 2, 3]
    assert start(words) == 0
    assert freed(capsys) == 0
    run_all_rounds(scene.federation)


def test_a_run_is_found_by_its_path_and_by_default_keeps_all(
    scene: Scene, capsys: pytest.CaptureFixture[str]
):
    run_all_rounds(scene.federation)
    assert start(["gc", str(scene.federation.run)]) == 0
    assert capsys.readouterr().out == "0.00 MB freed in 0 places\n"
    assert kept(scene) == [0, 1, 2, 3]


def test_a_home_keeps_as_many_answers_as_its_own_file_says(scene: Scene):
    home = scene.join()
    database = home.path / "buffer.db"
    with closing(Buffer(database)) as buffer:
        for round in range(1, 9):
            buffer.outbox.finish("clinics", round, "r", SiteReply(ClientStats(), b"x" * round))
    for settings, words, votes in (
        ("answers = 5", [], [8, 7, 6, 5, 4]),
        ("answers = 3", [], [8, 7, 6]),
        ("answers = 3", ["--answers", "2"], [8, 7]),
    ):
        file = home.path / "site.toml"
        file.write_text(file.read_text().replace("answers = 5", settings))
        assert start(["gc", str(home.path), *words]) == 0
        with closing(Buffer(database)) as buffer:
            assert [vote.round for vote in buffer.outbox.kept_votes("clinics")] == votes


@pytest.mark.parametrize("option", ["--rounds", "--answers"])
@pytest.mark.parametrize("number", ["1", "-1"])
def test_less_than_a_resume_needs_is_refused(scene: Scene, option: str, number: str):
    run_all_rounds(scene.federation)
    assert start(["gc", str(scene.federation.path), option, number]) == 2
    assert kept(scene) == [0, 1, 2, 3]


def test_what_is_in_use_is_left_alone(scene: Scene, capsys: pytest.CaptureFixture[str]):
    run_all_rounds(scene.federation)
    home = scene.join()
    with locked(home.path, busy="", hint=""), locked(scene.federation.path, busy="", hint=""):
        for folder in (home.path, scene.federation.path):
            assert start(["gc", str(folder), "--rounds", "2"]) == 7
            assert "is in use by `fedse" in capsys.readouterr().err
    with held(scene.federation.run):
        assert start(["gc", str(scene.federation.path), "--rounds", "2"]) == 7
    assert kept(scene) == [0, 1, 2, 3]
