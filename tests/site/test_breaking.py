"""What a client says when its environment breaks: which, where, and how to check it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedse.agent.policy import Policy
from fedse.config.schema import Config
from fedse.drivers.sites import OpenSite, Sites
from fedse.envs.base import Step
from fedse.errors import EnvError, RunError
from fedse.events import silent
from fedse.method.site import Site
from fedse.protocol import Delivery, Question
from fedse.site.open import add_demonstrations, check_hint
from fedse.testing import CoinWorld, open_toy_site, toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

HERE = __name__
CHECK = f"fedse env check {HERE}:Closed --option tasks=5"


class Closed(CoinWorld):
    """Raises at every action."""

    def step(self, action: str) -> Step:
        raise RuntimeError("the desk is closed")


class Nameless(CoinWorld):
    """Cannot tell its tasks."""

    def tasks(self, split):
        raise KeyError(split)


class Away(CoinWorld):
    """Its server is not up, and it says what to do about that."""

    def tasks(self, split):
        raise EnvError("coin: no server", hint="start the coin server")


def config(env: str, **sections: object) -> Config:
    client = {"name": "a", "env": f"{HERE}:{env}", "options": {"tasks": 5}}
    return Config.model_validate({"clients": [client], **sections})


def asked(settings: Config, home: Path, open_site: OpenSite = open_toy_site) -> Delivery:
    adapter = toy_adapter(toy_spec(), 1)
    request = Question(
        experiment="run",
        round=1,
        agreed=settings.agreed_digest(),
        spec=toy_spec().identity,
        adapter=adapter.digest,
        kind="train",
        evaluate=False,
    )
    sites = Sites(settings, home, lambda: 0.0, open_site)
    return sites.answer("a", request, adapter.to_bytes(), silent)


def test_demonstrations_that_break_name_the_command_with_the_options(tmp_path: Path):
    settings = config("Closed", buffer={"demonstrations": 3})
    site = open_toy_site(settings, "a", tmp_path, clock=lambda: 0.0)
    with pytest.raises(EnvError, match="all 3 demonstrations broke") as caught:
        add_demonstrations(site, settings)
    assert caught.value.hint == CHECK


def test_episodes_that_break_are_the_fault_of_the_client_and_name_the_command(tmp_path: Path):
    answer = asked(config("Closed", rollout={"episodes": 2}), tmp_path)
    assert (answer.stats, answer.adapter) == (ClientStats(), None)
    assert answer.fault.startswith("2 of 2 episodes broke, the first in task 'train-")
    assert answer.fault.endswith(f"coin.step: RuntimeError: the desk is closed; next: {CHECK}")


def test_a_world_that_cannot_tell_its_tasks_is_the_fault_of_the_client(tmp_path: Path):
    check = CHECK.replace("Closed", "Nameless")
    answer = asked(config("Nameless"), tmp_path)
    assert answer.fault == f"coin.tasks('train'): KeyError: 'train'; next: {check}"


def test_a_world_that_gives_advice_is_not_talked_over(tmp_path: Path):
    assert asked(config("Away"), tmp_path).fault == "coin: no server; next: start the coin server"


def test_what_is_no_fault_of_the_environment_keeps_its_own_hint(tmp_path: Path):
    def gone(adapter: Adapter, temperature: float) -> Policy:
        raise RunError("the engine gave no answer", hint="fedse engine check")

    def open_site(*place: Any, **own: Any) -> Site:
        return replace(open_toy_site(*place, **own), make_policy=gone)

    answer = asked(config("Closed"), tmp_path, open_site)
    assert answer.fault == "the engine gave no answer; next: fedse engine check"


def test_a_program_is_not_checked_as_an_environment():
    client = config("Closed").clients[0].model_copy(update={"env": "fedse.serve:Program"})
    assert "fedse run CONFIG --set run.rounds=1" in check_hint(client)
