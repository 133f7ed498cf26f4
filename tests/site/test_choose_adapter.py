"""Which adapter a site exports: better than working alone beyond doubt, or the one made alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.config.judging import PersonalSection, SplitsSection
from fedse.config.schema import BufferSection, ClientSection, Config
from fedse.errors import StoreError
from fedse.method.site import Site
from fedse.site.choose_adapter import choose_adapter, trained_alone
from fedse.site.open import add_demonstrations
from fedse.site.own_adapters import keep_adapter
from fedse.testing import open_toy_site, toy_spec
from fedse.types import Adapter

SPEC, GAMES = toy_spec(), 40
CONFIG = Config(
    splits=SplitsSection(validation=0.3),
    personal=PersonalSection(steps=5),
    buffer=BufferSection(demonstrations=6),
    clients=(ClientSection(name="a", env="fedse.testing:CoinWorld", options={"tasks": 50}),),
)
GOOD, BAD = (Adapter(SPEC, np.full(SPEC.size, value, np.float32)) for value in (0.5, -0.5))


def winner(adapter: Adapter, temperature: float) -> ScriptedPolicy:
    """Wins every game with positive numbers, none with negative ones, else every second."""

    def say(dialogue: Dialogue, seed: int) -> str:
        mean = float(adapter.vector.mean())
        wins = mean > 0.4 or (mean > -0.4 and dialogue.observation.split()[0][-1] in "02468")
        return "heads" if wins and not dialogue.turns else "tails"

    return ScriptedPolicy(say, name=adapter.digest)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    opened = open_toy_site(CONFIG, "a", tmp_path, clock=lambda: 0.0)
    add_demonstrations(opened, CONFIG)
    return replace(opened, make_policy=winner)


@pytest.mark.parametrize(
    ("shared", "personal", "name"),
    [(BAD, GOOD, "personal"), (GOOD, BAD, "global"), (BAD, BAD, "alone")],
)
def test_what_is_exported(
    site: Site, tmp_path: Path, shared: Adapter, personal: Adapter, name: str
):
    keep_adapter(tmp_path, "global", 3, shared)
    keep_adapter(tmp_path, "personal", 3, personal)
    chosen = choose_adapter(site, CONFIG, tmp_path, games=GAMES, risk=0.05)
    assert chosen.choice.name == name
    assert chosen.choice.won["alone"] not in (0, GAMES)
    own = {"global": shared, "personal": personal, "alone": trained_alone(site, CONFIG)}
    assert chosen.adapter.digest == own[name].digest
    records = {game.split for game in site.buffer.played("run")}
    assert records == {"validation-alone", "validation-global", "validation-personal"}


def test_without_an_adapter_of_the_federation_there_is_nothing_to_choose(
    site: Site, tmp_path: Path
):
    with pytest.raises(StoreError, match="no adapter of the federation yet"):
        choose_adapter(site, CONFIG, tmp_path, games=GAMES, risk=0.05)
