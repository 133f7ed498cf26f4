"""Two failures of learning in several roles are told, and learning that goes well is not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedse.blocks import in_blocks, span_of
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.errors import StoreError
from fedse.results.alarms import standing_alarms
from fedse.results.best_rounds import best_adapter, best_rounds
from fedse.results.role_alarms import role_alarms
from fedse.results.role_course import role_course
from fedse.role_figures import RoleStats, are_possible, by_role, flat
from fedse.stats.rates import Rate
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Adapter, ClientStats

NAMES = ["planner", "worker"]


def config(**roles: object) -> Config:
    clients = [{"name": name, "env": "maze"} for name in ("a", "b")]
    return Config.model_validate({"roles": {"names": NAMES, **roles}, "clients": clients})


def result(index: int, planner: RoleStats, worker: RoleStats) -> RoundResult:
    own = ClientStats(played=20, roles=flat([planner, worker]))
    return RoundResult(
        index=index,
        before=f"{index - 1:064x}",
        after=f"{index:064x}",
        voters=("a", "b"),
        stats={"a": own, "b": own},
        bytes_down=0,
        bytes_up=0,
        seconds=1,
    )


def shared(losses: Sequence[float], *, gradient: float = 9.0, won: int = 10) -> list[RoundResult]:
    """The worker has nine tenths of the gradient; the planner's losses are these."""
    return [
        result(
            index,
            RoleStats(20, won, loss, 1.0, 100, 0.1),
            RoleStats(20, won, 1.0 / index, gradient, 900, 0.1),
        )
        for index, loss in enumerate(losses, 1)
    ]


def test_figures_travel_in_a_row():
    roles = [RoleStats(3, 2, 0.5, 0.1, 7, 0.2), RoleStats(1, 1)]
    assert by_role(flat(roles), NAMES) == dict(zip(NAMES, roles, strict=True))
    assert by_role((), NAMES) == {}
    assert "roles" not in ClientStats().model_dump()


def test_figures_that_cannot_be_are_recognised():
    good = flat([RoleStats(3, 2, 0.5), RoleStats(1, 1)])
    assert are_possible(good, NAMES)
    assert are_possible((), NAMES)
    assert not are_possible(good, ["planner"])
    assert not are_possible(good, [])
    for wrong in (RoleStats(1, 2), RoleStats(1, 1, -0.5)):
        assert not are_possible(flat([wrong, wrong]), NAMES)


def test_shares_are_those_of_the_gradient():
    course = role_course(shared([1.0]), config())
    assert [(one.role, one.share) for one in course] == [("planner", 0.1), ("worker", 0.9)]


def test_a_role_that_captures_the_policy_is_named():
    stuck = shared([1.0, 0.9, 0.9, 0.95, 0.96, 0.97])
    (alarm,) = role_alarms(stuck, config(balance=False), {})
    assert alarm.name == "role-captured"
    assert alarm.text.startswith("worker gives 90% of the gradient")
    assert "planner no longer learns" in alarm.text
    assert alarm.next.endswith("roles.balance=true")
    assert [one.alarm.name for one in standing_alarms(stuck, config())][-1] == "role-captured"


def test_no_alarm_where_the_other_role_learns_or_has_its_share():
    learning = shared([1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
    assert role_alarms(learning, config(), {}) == []
    fair = shared([1.0, 0.9, 0.9, 0.95, 0.96, 0.97], gradient=1.0)
    assert role_alarms(fair, config(), {}) == []
    assert role_alarms(learning[:2], config(), {}) == []


def test_a_loss_that_hardly_falls_is_an_alarm_unless_the_role_has_learned():
    hardly = [1.0, 1.0, 1.0, 0.98, 0.97, 0.96]
    assert role_alarms(shared(hardly, won=17), config(), {})
    assert role_alarms(shared(hardly, won=18), config(), {}) == []


def validated(won: Sequence[int], *, games: int = 50) -> dict[str, dict[str, tuple[int, int]]]:
    return {f"{i:064x}": {"a": (w, games), "b": (w, games)} for i, w in enumerate(won, 1)}


def test_a_block_that_falls_off_its_best_rounds_is_named():
    isolated, rounds = config(policy="isolated"), shared([1.0] * 8)
    fallen = validated([10, 20, 40, 42, 41, 20, 10, 9])
    alarms = role_alarms(rounds, isolated, fallen)
    assert {alarm.name for alarm in alarms} == {"role-cliff"}
    assert "fell from 0.82 in rounds 3 to 5" in alarms[0].text
    noise = validated([10, 20, 40, 42, 41, 40, 38, 39])
    assert role_alarms(rounds, isolated, noise) == []


def test_the_best_of_many_rounds_must_be_better_than_that_of_few():
    isolated, best, now = config(policy="isolated"), [9, 8, 9], [6, 5, 6]
    few = role_alarms(shared([1.0] * 6), isolated, validated([*best, *now], games=16))
    assert {alarm.name for alarm in few} == {"role-cliff"}
    many = validated([*[7] * 31, *best, *now], games=16)
    assert role_alarms(shared([1.0] * 37), isolated, many) == []


@pytest.fixture
def run(tmp_path: Path):
    given = config(policy="isolated")
    spec = in_blocks(toy_spec(), given.roles.blocks)
    with Run(tmp_path, given, spec, clock=lambda: 0.0) as opened:
        opened.begin(toy_adapter(spec, 0))
        yield opened


def commit(run: Run, index: int, won: dict[str, tuple[int, int]]) -> Adapter:
    adapter = toy_adapter(run.spec, index)
    before = run.adapter(index - 1).digest
    bare = result(index, RoleStats(), RoleStats())
    digest = run.store(adapter)
    run.record_validations(adapter.digest, won)
    run.commit(bare.model_copy(update={"before": before, "after": digest}))
    return adapter


def test_every_block_is_taken_of_its_best_round(run: Run):
    clients = [{"name": n, "env": "maze", "roles": [r]} for n, r in zip("ab", NAMES, strict=True)]
    run.config = Config.model_validate(
        {"roles": {"names": NAMES, "policy": "isolated"}, "clients": clients}
    )
    assert best_rounds(run) == {}
    with pytest.raises(StoreError):
        best_adapter(run)
    made = [
        commit(run, 1, {"a": (9, 10), "b": (1, 10)}),
        commit(run, 2, {"a": (3, 10), "b": (5, 10)}),
        commit(run, 3, {"a": (3, 10), "b": (4, 10)}),
    ]
    assert best_rounds(run) == {
        "planner": (1, Rate(9, 10)),
        "worker": (2, Rate(5, 10)),
    }
    best = best_adapter(run)
    for block, source in zip(NAMES, made, strict=False):
        span = span_of(run.spec, block)
        assert np.array_equal(best.vector[span], source.vector[span])
