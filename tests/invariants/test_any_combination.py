"""Every law of a run holds for all settings that go together, and wherever the run is stopped."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.needs import needs

needs("cryptography", "Crypto", "dp_accounting")

from fedse.committed import RoundResult
from tests.conftest import MEMORY, holds_test_folders
from tests.toys.disturbed import ROUNDS, Scene, Stopped, charges, local_blocks, play, scenes

CASES = 50
"""Drawn cases of one test; the first two laws have ten tests, which several processes can share."""
SHARDS = [0, *(pytest.param(shard, marks=pytest.mark.slow) for shard in range(1, 10))]
FOLDERS = MEMORY if holds_test_folders(MEMORY) else None


def drawn(shard: int, law: Callable[..., None], *spaces: st.SearchStrategy[Any]) -> None:
    """The law holds for the cases of this shard; a failing one is shown as it was drawn."""
    checked = given(*spaces)(law)
    limits = settings(
        max_examples=CASES,
        deadline=None,
        derandomize=False,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    seed(shard)(limits(checked))()


@pytest.mark.parametrize("shard", SHARDS)
def test_no_disturbance_freezes_a_run_and_no_stop_changes_it(shard: int):
    """Two laws of the same drawn runs, as a run that nothing stops is needed for either.

    Whatever happened before, a last round in which all are there and honest is a good one. And
    stopped anywhere and gone on is the same as never stopped.
    """

    def law(scene: Scene, place: int) -> None:
        with TemporaryDirectory(dir=FOLDERS) as folder:
            whole = play(Path(folder, "whole"), scene)
            require_good_end(scene, whole.results[-1])
            stop = place % len(whole.events)
            with pytest.raises(Stopped):
                play(Path(folder, "cut"), scene, stop=stop)
            again = play(Path(folder, "cut"), scene)
            assert again.adapter == whole.adapter, whole.events[stop]
            assert outcomes(again.results) == outcomes(whole.results), whole.events[stop]
            for kept in (charges, local_blocks):
                at_sites = [kept(Path(folder, name), scene.config) for name in ("whole", "cut")]
                assert at_sites[0] == at_sites[1], whole.events[stop]

    drawn(shard, law, scenes(), st.integers(0, 10**6))


def require_good_end(scene: Scene, last: RoundResult) -> None:
    """The last round was played, counts everybody who never lied, and its merge was accepted."""
    liars = {client for client, _, _ in scene.lies}
    # Toy updates have random directions, so a gate that accuses may suspect anybody.
    left_out = {o.client for o in last.excluded if o.kind in ("suspected", "quarantined")}
    counted = {*last.voters, *last.abstained, *left_out}
    assert last.index == ROUNDS
    assert counted >= {*scene.config.members} - liars, last
    assert last.gate is None or not last.gate.refused, last
    assert (last.after != last.before) == bool(last.voters), last


def outcomes(results: Any) -> list[Any]:
    """All that a round comes to but the time it took."""
    timed = {"rollout_seconds", "train_seconds", "eval_seconds"}
    return [
        result.model_dump(exclude={"seconds": True, "stats": dict.fromkeys(result.stats, timed)})
        for result in results
    ]


@pytest.mark.parametrize("shard", SHARDS[:2])
def test_a_gate_that_lets_everything_pass_changes_nothing(shard: int):
    """Neither the adapters of all rounds nor what the sites count."""

    def law(scene: Scene) -> None:
        open_gate = scene.config.gate.model_copy(update={"episodes": 4, "liars": 0})
        gated = scene.config.model_copy(update={"gate": open_gate})
        with TemporaryDirectory(dir=FOLDERS) as folder:
            without = play(Path(folder, "without"), Scene(scene.config))
            passed = play(Path(folder, "gated"), Scene(gated))
        assert not any(result.gate and result.gate.refused for result in passed.results)
        ungated = [{**one, "gate": None} for one in outcomes(passed.results)]
        assert ungated == outcomes(without.results)

    drawn(shard, law, scenes(gate={}))
