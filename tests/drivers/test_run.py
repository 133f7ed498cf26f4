"""A run on this machine leaves nothing open."""

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from fedse.config.judging import EvalSection
from fedse.config.methods import with_settings
from fedse.config.schema import ClientSection, Config, RolloutSection
from fedse.drivers import local
from fedse.drivers import pooled as pooled_driver
from fedse.drivers.run import run_local
from fedse.drivers.sites import Sites
from fedse.store.run import Run
from fedse.testing import open_toy_site, toy_spec

CONFIG = Config(
    rollout=RolloutSection(episodes=3),
    eval=EvalSection(episodes=2),
    clients=tuple(ClientSection(name=n, env="fedse.testing:CoinWorld") for n in ("a", "b")),
)


def open_databases(path: Path) -> list[str]:
    """SQLite takes these files away when the last connection is closed."""
    return sorted(file.name for file in (path / "clients").rglob("*-wal"))


@pytest.mark.parametrize("pooled", [False, True])
def test_no_file_of_a_client_is_open_afterwards(tmp_path: Path, pooled: bool):
    config = with_settings(CONFIG, {"run.rounds": 1, "buffer.pooled": pooled})
    with closing(Run(tmp_path, config, toy_spec(), clock=lambda: 0.0)) as run:
        run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
        assert len(list((tmp_path / "clients").rglob("buffer.db"))) == 2
        assert open_databases(tmp_path) == []


@pytest.mark.parametrize("pooled", [False, True])
def test_few_sites_are_open_at_once_and_change_nothing(
    tmp_path: Path, pooled: bool, monkeypatch: pytest.MonkeyPatch
):
    world = "fedse.testing:CoinWorld"
    clients = tuple(ClientSection(name=name, env=world) for name in "abcde")
    changed = {"run.rounds": 2, "buffer.pooled": pooled}
    config = with_settings(CONFIG.model_copy(update={"clients": clients}), changed)
    ends: list[str] = []
    most_open: list[int] = []
    for most in (5, 2):
        few = partial(Sites, most=most)
        for module in (local, pooled_driver):
            monkeypatch.setattr(module, "Sites", few)
        path = tmp_path / str(most)
        seen: list[int] = []

        def look(event: str, facts: object, path: Path = path, seen: list[int] = seen) -> None:
            seen.append(len(open_databases(path)))

        run = Run(path, config, toy_spec(), clock=lambda: 0.0, observers=[look])
        with closing(run):
            ends.append(run_local(run, clock=lambda: 0.0, open_site=open_toy_site).digest)
        most_open.append(max(seen))
    assert most_open == [5, 2]
    assert ends[0] == ends[1]


def test_nor_when_it_fails(tmp_path: Path):
    def stop(event: str, facts: object) -> None:
        if event == "aggregate.started":
            raise KeyboardInterrupt

    run = Run(tmp_path, CONFIG, toy_spec(), clock=lambda: 0.0, observers=[stop])
    with closing(run), pytest.raises(KeyboardInterrupt):
        run_local(run, clock=lambda: 0.0, open_site=open_toy_site)
    assert len(list((tmp_path / "clients").rglob("buffer.db"))) == 2
    assert open_databases(tmp_path) == []
