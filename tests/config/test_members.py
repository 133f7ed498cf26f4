"""What is computed from the clients of a config once, and is right in every copy of it."""

from contextlib import closing
from pathlib import Path

import pytest

from fedse.config import schema
from fedse.config.judging import EvalSection
from fedse.config.schema import ClientSection, Config, RolloutSection, RunSection
from fedse.drivers.run import run_local
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec


def config_of(*names: str) -> Config:
    world = "fedse.testing:CoinWorld"
    return Config(
        run=RunSection(rounds=1),
        rollout=RolloutSection(episodes=1),
        eval=EvalSection(episodes=0),
        clients=tuple(ClientSection(name=name, env=world) for name in names),
    )


def test_a_copy_with_other_clients_knows_its_own():
    whole, other = config_of("a", "b"), config_of("b", "c")
    assert list(whole.members) == ["a", "b"]
    assert whole.agreed_digest() != other.agreed_digest()
    copied = whole.model_copy(update={"clients": other.clients})
    assert list(copied.members) == ["b", "c"]
    assert copied.agreed_digest() == other.agreed_digest()
    assert copied.client("c") is other.clients[1]
    assert list(whole.members) == ["a", "b"]
    assert copied == other


def digests_of_settings(folder: Path, names: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a run of so many clients computes the digest of what they agreed on."""
    made: list[object] = []
    real = schema.digest_of
    with monkeypatch.context() as patched:
        patched.setattr(schema, "digest_of", lambda value: made.append(1) or real(value))
        with closing(Run(folder, config_of(*names), toy_spec(), clock=lambda: 0.0)) as run:
            run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
    return len(made)


def test_the_settings_are_digested_as_often_for_one_client_as_for_five(tmp_path, monkeypatch):
    one = digests_of_settings(tmp_path / "one", ["a"], monkeypatch)
    assert one == digests_of_settings(tmp_path / "five", [*"abcde"], monkeypatch)
