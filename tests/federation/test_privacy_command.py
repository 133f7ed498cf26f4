"""`fedse privacy budget`: what was spent, for what, and how much is left."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from fedse.cli.app import build_app, start
from fedse.config.file import parse_config
from fedse.method.rollout import choose_games, demonstrate
from fedse.privacy.accountant import Charge, epsilon_of
from fedse.store.buffer import Buffer
from fedse.testing import CoinWorld
from tests.docs.test_reference import can_be_typed
from tests.federation.scene import Scene
from tests.needs import needs

needs("flwr", "dp_accounting")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "differential-privacy.md"
SETTINGS = "\n[privacy]\nepsilon = 8.0\nnoise = 2.0\nrate = 1.0\n"


@pytest.fixture
def home(scene: Scene) -> Path:
    return scene.join().path


def told(home: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    capsys.readouterr()
    assert start(["privacy", "budget", "--json", "--home", str(home)]) == 0
    facts: dict[str, object] = json.loads(capsys.readouterr().out)
    return facts


def charge(home: Path, *charges: Charge) -> None:
    with closing(Buffer(home / "buffer.db")) as buffer:
        for number, one in enumerate(charges):
            buffer.outbox.privacy.charge(f"{one} {number}", one, b"")


def test_a_site_without_a_budget_says_so(home: Path, capsys: pytest.CaptureFixture[str]):
    assert start(["privacy", "budget", "--home", str(home)]) == 2
    assert "this site has no privacy budget" in capsys.readouterr().err


def test_it_tells_what_was_spent_over_all_experiments(
    home: Path, capsys: pytest.CaptureFixture[str]
):
    with (home / "site.toml").open("a") as file:
        file.write(SETTINGS)
    before = told(home, capsys)
    assert (before["spent"], before["charges"]) == (0.0, [])
    spent = [Charge("first", 1, "episode", 1.0, 2.0, 3), Charge("second", 1, "subject", 1, 2.0, 2)]
    charge(home, *spent)
    after = told(home, capsys)
    assert after["spent"] == epsilon_of(spent, delta=1e-5)
    assert after["charges"] == [one._asdict() for one in spent]
    assert int(str(after["rounds_left"])) <= int(str(before["rounds_left"]))


def test_the_rounds_that_are_left_are_those_that_fit(
    home: Path, capsys: pytest.CaptureFixture[str]
):
    with (home / "site.toml").open("a") as file:
        file.write(SETTINGS.replace("2.0", "4.0"))
    facts = told(home, capsys)
    left, steps = int(str(facts["rounds_left"])), int(str(facts["steps"]))
    one = Charge("x", 1, "episode", 1.0, 4.0, steps)
    assert left > 0
    assert epsilon_of([one] * left, delta=1e-5) <= 8 < epsilon_of([one] * (left + 1), delta=1e-5)
    assert start(["privacy", "budget", "--home", str(home)]) == 0
    assert f"left     {left} such rounds" in capsys.readouterr().out


def test_a_round_without_noise_is_named(home: Path, capsys: pytest.CaptureFixture[str]):
    with (home / "site.toml").open("a") as file:
        file.write(SETTINGS)
    charge(home, Charge("first", 4, "episode", 1.0, 0.0, 3))
    assert told(home, capsys)["spent"] is None
    start(["privacy", "budget", "--home", str(home)])
    said = capsys.readouterr().out
    assert "first, rounds 4 to 4, by episode: WITHOUT NOISE" in said
    assert "none: the site abstains" in said


def test_what_the_page_shows_can_be_typed():
    page, app = PAGE.read_text(), build_app()
    settings = re.findall(r"```toml\n(\[privacy\].*?)```", page, re.DOTALL)
    assert settings
    client = '\n[[clients]]\nname = "a"\nenv = "maze"\n'
    for text in settings:
        assert parse_config(text + client, "page").privacy.on
    commands = re.findall(r"^(fedse privacy .*)$", page, re.MULTILINE)
    assert commands
    assert all(can_be_typed(app, command) for command in commands)


def test_the_page_for_the_officer_tells_of_the_budget(home: Path):
    needs("jinja2")
    page = home.parent / "page.html"
    with (home / "site.toml").open("a") as file:
        file.write(SETTINGS)
    charge(home, Charge("first", 1, "episode", 1.0, 2.0, 3))
    assert start(["privacy", "report", str(page), "--home", str(home)]) == 0
    spent = epsilon_of([Charge("first", 1, "episode", 1.0, 2.0, 3)], delta=1e-5)
    assert f"<dt>epsilon spent</dt><dd>{spent:.4g} of 8</dd>" in page.read_text()


def test_a_plan_counts_what_is_in_the_buffer(home: Path, capsys: pytest.CaptureFixture[str]):
    with (home / "site.toml").open("a") as file:
        file.write(SETTINGS)
    lesson = demonstrate(choose_games(CoinWorld().tasks("train"), 1, seed=1), CoinWorld)
    with closing(Buffer(home / "buffer.db")) as buffer:
        buffer.add(lesson, experiment="other")
    capsys.readouterr()
    assert start(["privacy", "plan", str(home), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["units"] == 1
    assert start(["privacy", "plan", str(home), "--units", "3", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)
    assert given["alone"]["ratio"] == pytest.approx(3 * counted["alone"]["ratio"])


def test_a_site_is_explained_by_its_own_word_and_by_what_was_agreed(
    home: Path, capsys: pytest.CaptureFixture[str]
):
    """A federation without a secure sum: `internal` asks the others for nothing."""
    settings = (home / "site.toml").read_text()
    (home / "site.toml").write_text(f'{settings}\n[privacy]\npreset = "internal"\n')
    assert start(["privacy", "explain", str(home)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("privacy.preset = internal")
    assert "OFF  the coordinator sees only a sum" in told
    (home / "site.toml").write_text(f'{settings}\n[privacy]\npreset = "customer-data"\n')
    assert start(["privacy", "explain", str(home)]) == 2
    refused = capsys.readouterr().err
    assert "needs aggregate.secure = true, got false: agree on it with all sites" in refused
