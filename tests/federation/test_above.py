"""`fedse federation create --above`: a region agrees on what the coordinator above has set."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedse.cli.app import start
from fedse.config.schema import Config
from fedse.errors import ConfigError
from fedse.federation.above import home_above
from fedse.federation.folder import open_federation
from fedse.federation.home import open_home
from fedse.federation.rotation import read_either
from fedse.flower.messages.bundle import own_digest
from fedse.store.run_folder import run_config
from tests.federation.scene import Scene, config, make_scene
from tests.needs import needs

needs("flwr")

SITES = '[[clients]]\nname = "{}"\nenv = "maze"\n'


def above(tmp_path: Path, **aggregate: object) -> Scene:
    """A coordinator with the region alpha of at most two sites, and the site beta."""
    rules = {"regions": {"alpha": 2}, "deadline": 400.0, "min_clients": 2, **aggregate}
    return make_scene(tmp_path, aggregate=rules, train={"lr": 1e-3}, bundle=own_digest())


def refused(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> str:
    """What the command says that refuses."""
    assert start([*words]) == ConfigError.exit_code
    return capsys.readouterr().err


def create(tmp_path: Path, scene: Scene, text: str, *more: str) -> list[str]:
    file, out = tmp_path / "region.toml", tmp_path / "region"
    file.write_text(text)
    trusted = ["--above", str(scene.invite), "--fingerprint", scene.fingerprint]
    words = ["federation", "create", str(file), "--out", str(out), "--host", "localhost"]
    return [*words, *(more or trusted)]


def created(tmp_path: Path, scene: Scene, text: str) -> Path:
    assert start(create(tmp_path, scene, text)) == 0
    return tmp_path / "region"


def two(*names: str) -> str:
    return "".join(map(SITES.format, names))


def test_a_region_is_a_member_above_and_a_coordinator_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scene = above(tmp_path)
    out = created(tmp_path, scene, two("a", "b"))
    assert "above/enrolment.json to the coordinator above" in capsys.readouterr().out
    home, below = home_above(out), run_config(open_federation(out).run)
    assert home
    assert home.card.site == "alpha"
    assert open_home(home.path).config.agreed_digest() == scene.read().agreed
    assert [*below.members] == ["a", "b"]
    assert below.train.lr == 1e-3
    limits = below.aggregate
    assert (limits.regions, limits.min_clients, limits.deadline) == ({}, 1, 300.0)
    scene.enrol(read_either(home.path / "enrolment.json"))


REFUSED = {
    "more sites than allowed": (two("a", "b", "c"), "alpha may speak for 2 sites"),
    "another setting": ("[train]\nlr = 0.5\n" + two("a"), "train.lr: 0.5 -> 0.001"),
    "another base": ("[model]\nrank = 4\n" + two("a"), "model.rank: 4 -> 8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_what_was_agreed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
):
    text, reason = REFUSED[case]
    assert reason in refused(capsys, create(tmp_path, above(tmp_path), text))
    assert not (tmp_path / "region").exists()


def test_a_setting_may_be_repeated(tmp_path: Path):
    text = '[train]\nlr = 1e-3\n[run]\nname = "clinics"\n' + two("a")
    assert created(tmp_path, above(tmp_path), text).is_dir()


def test_a_site_is_no_region(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = create(tmp_path, above(tmp_path, regions={"beta": 2}), two("a"))
    assert "alpha is invited as a site, not as a region" in refused(capsys, words)


def test_a_fingerprint_alone_means_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = create(tmp_path, above(tmp_path), two("a"), "--fingerprint", "12ab")
    assert "there is no --above" in refused(capsys, words)


def test_nothing_is_amended_where_there_are_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scene = above(tmp_path)
    for folder in (scene.federation.path, created(tmp_path, scene, two("a"))):
        words = ["federation", "amend", "--dir", str(folder), "--set", "train.lr=0.1"]
        told = refused(capsys, [*words, "--reason", "why not"])
        assert "an amendment is not possible with regions" in told


SETTINGS = {
    "a stranger": {"regions": {"gamma": 1}},
    "a goal": {"goal": 1},
    "late votes": {"late": 1},
    "a secure sum beside a site": {"secure": True, "clip": "none"},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_what_needs_every_vote_in_one_place_is_refused(case: str):
    rules = {"regions": {"alpha": 2}, **SETTINGS[case]}
    with pytest.raises(ValueError, match="aggregate"):
        Config.model_validate({**config().model_dump(), "aggregate": rules})


def test_the_noise_of_a_step_is_refused_by_name():
    secure = {"regions": {"alpha": 3, "beta": 3}, "secure": True, "clip": "none"}
    step = {"units": 100, "noise": 3.61}
    with pytest.raises(ValueError, match="the noise of a step is shared by all"):
        Config.model_validate({**config().model_dump(), "aggregate": secure, "step": step})


def test_the_file_of_a_region_says_what_its_sites_agree_on(tmp_path: Path):
    out = created(tmp_path, above(tmp_path), two("a"))
    assert tomllib.loads((out / "run" / "config.toml").read_text())["train"]["lr"] == 1e-3
