"""Places for sites that nobody could name: who takes one has agreed to what all agreed to."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.config.file import dump_config
from fedse.errors import ConfigError
from fedse.federation.invite import read_invite
from fedse.federation.spare import free_places, with_spare_places
from tests.federation.scene import NOW, Scene, config, make_scene
from tests.needs import needs


@dataclass
class Places:
    scene: Scene

    @property
    def free(self) -> set[str]:
        return {*free_places(with_spare_places(config(), 2), self.scene.federation.path)}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    clients = [one.model_dump() for one in with_spare_places(config(), 2).clients]
    return Places(make_scene(tmp_path, clients=clients))


def test_none_changes_nothing():
    assert with_spare_places(config(), 0) == config()


def test_places_come_after_the_clients_of_the_file():
    assert [one.name for one in with_spare_places(config(), 2).clients] == [
        "alpha", "beta", "spare-1", "spare-2",
    ]  # fmt: skip


def test_a_place_is_free_until_a_site_is_enrolled(places: Places):
    scene = places.scene
    assert places.free == {"spare-1", "spare-2"}
    file = scene.invite_again("spare-2")
    assert places.free == {"spare-1", "spare-2"}
    offered = read_invite(file, trusted=scene.fingerprint, now=NOW)
    home = scene.join(home="late", invite=offered)
    assert home.config.agreed_digest() == with_spare_places(config(), 2).agreed_digest()
    scene.enrol(scene.request(home))
    assert places.free == {"spare-1"}


def test_a_client_that_the_file_names_is_no_free_place(scene: Scene):
    assert free_places(config(), scene.federation.path) == frozenset()


def test_a_run_without_a_federation_has_none(tmp_path: Path):
    assert free_places(with_spare_places(config(), 1), tmp_path) == frozenset()


@pytest.mark.parametrize(
    ("changes", "count", "told"),
    [
        ({}, -1, "must be 0 or more, got -1"),
        ({"aggregate": {"secure": True, "clip": "none"}}, 1, "aggregate.secure"),
        (
            {"clients": [{"name": "spare-1", "env": "maze"}]},
            1,
            "already has a client named spare-1",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict, count: int, told: str):
    if changes.get("aggregate"):
        changes["clients"] = [{"name": f"site-{n}", "env": "maze"} for n in range(3)]
    with pytest.raises(ConfigError, match=told):
        with_spare_places(config(**changes), count)


def test_the_command_says_how_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    needs("flwr")
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(dump_config(config()))
    assert start(["federation", "create", "my.toml", "--host", "localhost", "--spare", "2"]) == 0
    assert "clinics, 2 sites and 2 spare places, federation" in capsys.readouterr().out
    assert start(["federation", "invite", "spare-2"]) == 0
    assert "send this file to spare-2" in capsys.readouterr().out
