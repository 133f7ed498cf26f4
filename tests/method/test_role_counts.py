"""What is counted of each role: its games, its own success, and how it learned."""

from fedse.config.roles import RolesSection
from fedse.method.role_counts import count_roles
from fedse.method.rollout import choose_games, demonstrate
from fedse.role_figures import RoleFit, RoleStats, by_role
from fedse.testing import toy_adapter, toy_spec
from fedse.types import Fitted
from tests.toys.errand_world import Errand

NAMES = ["planner", "worker"]


def games(count: int):
    return demonstrate(choose_games(Errand().tasks("train"), count, seed=0), Errand)


def test_an_agent_without_roles_has_no_figures():
    assert count_roles(games(2), None, RolesSection()) == {}


def test_games_success_and_learning_are_by_role():
    both, other = games(2)
    lost = other.model_copy(update={"outcome": "failure", "role_rewards": (("worker", 1.0),)})
    alone = both.model_copy(update={"turns": both.turns[:1]})
    fit = {"worker": RoleFit(0.5, 0.25, 9, 0.125)}
    fitted = Fitted(toy_adapter(toy_spec(), 0), loss=0.5, steps=1, roles=fit)
    counted = count_roles([both, lost, alone], fitted, RolesSection(names=tuple(NAMES)))
    assert by_role(counted["roles"], NAMES) == {
        "planner": RoleStats(3, 2),
        "worker": RoleStats(2, 2, 0.5, 0.25, 9, 0.125),
    }


def test_nothing_is_told_of_what_a_role_learned_whose_block_stays_at_home():
    fit = dict.fromkeys(NAMES, RoleFit(0.5, 0.25, 9, 0.125))
    fitted = Fitted(toy_adapter(toy_spec(), 0), loss=0.5, steps=1, roles=fit)
    roles = RolesSection(names=tuple(NAMES), policy="isolated", local=("planner",))
    told = by_role(count_roles(games(2), fitted, roles)["roles"], NAMES)
    assert told["planner"] == RoleStats(2, 2)
    assert told["worker"] == RoleStats(2, 2, *fit["worker"])
