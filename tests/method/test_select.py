"""What is learned from: exact cases of the filters, and laws of those that look at the record."""

from fedse.method.select import (
    SELECTS,
    everything,
    successes,
)
from fedse.types import Outcome, Task, Trajectory, Turn

TASK = Task(env="shop", id="1", split="train")
SAID = (Turn(observation="o", action="a"),)


def episode(outcome: Outcome, reward: float, turns: tuple[Turn, ...] = SAID) -> Trajectory:
    return Trajectory(
        task=TASK, seed=0, turns=turns, outcome=outcome, reward=reward, policy="p", round=1
    )


WON, PART, LOST = episode("success", 1.0), episode("failure", 0.9), episode("failure", 0.0)
CUT, BROKEN = episode("truncated", 0.5), episode("broken", 0.7)
UNPLAYED = episode("truncated", 0.0, turns=())
UNTHANKED = episode("success", 0.0)
ALL = (LOST, WON, PART, CUT, BROKEN, UNPLAYED, UNTHANKED)


def test_the_papers_filter_keeps_what_the_world_calls_a_success():
    """Neither a part of a reward nor a success without one changes that."""
    assert successes(ALL) == (WON, UNTHANKED)
    assert successes(()) == ()


def test_without_a_filter_all_that_was_acted_in_is_kept_but_what_broke():
    assert everything(ALL) == (LOST, WON, PART, CUT, UNTHANKED)


def test_the_settings_name_these():
    assert [SELECTS[name] for name in ("success", "all")] == [successes, everything]


def test_a_role_with_a_reward_of_its_own_is_learned_from_by_that():
    said = tuple(Turn(observation="o", action="a", role=role) for role in ("critic", "writer"))

    def learned(outcome: Outcome, **rewards: float) -> list[str]:
        own = tuple(sorted(rewards.items()))
        one = episode(outcome, 0.0, said).model_copy(update={"role_rewards": own})
        return [turn.role for kept in successes([one]) for turn in kept.turns if turn.learned]

    assert learned("success") == ["critic", "writer"]
    assert learned("success", critic=0.0) == ["writer"]
    assert learned("failure", critic=1.0) == ["critic"]
    assert learned("failure", critic=0.9) == []
    assert learned("broken", critic=1.0) == []
    assert learned("success", critic=0.0, writer=0.0) == []
