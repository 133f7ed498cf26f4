"""What is remembered is what would have been done, and it is done once."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.needs import needs

needs("torch", "peft", "transformers")

import pytest

from fedse.api.experiment import load_experiment
from fedse.drivers.run import run_local
from fedse.results.held_out import outcomes
from fedse.site import remembered
from fedse.site.open import open_site
from fedse.site.remembered import open_remembering
from fedse.store.run_folder import create_run

SETTINGS = {
    "run.rounds": 2,
    "rollout.episodes": 2,
    "buffer.demonstrations": 2,
    "train.steps": 2,
    "warmstart.rounds": 1,
    "eval.episodes": 2,
    "eval.every": 2,
}


def experiment(optimizer: str, only: str | None = None):
    method = "local-evolve" if only else None
    whole = load_experiment("one-world", settings={**SETTINGS, "train.optimizer": optimizer}).config
    two = whole.model_copy(update={"clients": whole.clients[:2]})
    return load_experiment(two, method=method, only=only).config


def finish(config, root: Path, name: str, open_site):
    with create_run(root, config, given="", name=name) as run:
        adapter = run_local(run, open_site=open_site)
        return adapter.digest, {round: outcomes(run.path, round) for round in (0, 2)}


def counted(done: list[str], *args, **options):
    site = open_site(*args, **options)

    def fit(*args):
        done.append("fit")
        return site.fit(*args)

    def play(*args, **options):
        done.append("play")
        return site.play(*args, **options)

    return replace(site, fit=fit, play=play)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["fresh", "kept"])
def test_a_site_alone_does_again_only_what_differs(tmp_path: Path, monkeypatch, optimizer: str):
    """The first of two rounds and the first of two measurements are the same together and alone."""
    together = experiment(optimizer)
    name = together.clients[0].name
    alone = experiment(optimizer, only=name)
    plain = [finish(one, tmp_path, f"p{i}", open_site) for i, one in enumerate([together, alone])]
    done: list[str] = []
    monkeypatch.setattr(remembered, "open_site", partial(counted, done))
    shared = partial(open_remembering, tmp_path / "memory")
    found, work = [], []
    for i, one in enumerate([together, alone, alone]):
        found.append(finish(one, tmp_path, f"s{i}", shared))
        work.append((done.count("fit"), done.count("play")))
        done.clear()
    assert found == [*plain, plain[1]]
    sites = len(together.clients)
    assert [fits for fits, _ in work] == [2 * sites, 1, 0]
    # Alone: exploring in the second round, and the last measurement.
    assert work[1][1] == 2
    assert work[2][1] == 0
