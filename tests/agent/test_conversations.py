"""An episode of several roles: every conversation is a sequence of its own."""

from fedse.agent.conversations import conversations_of, has_roles, weighed
from fedse.agent.policy import Dialogue, ScriptedPolicy
from fedse.envs.conformance.check import check_env
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import choose_games, demonstrate, rollout
from fedse.types import Task, Trajectory, Turn
from tests.toys.errand_world import RIGHT, Errand


def turn(role: str = "", thread: int = 0, number: int = 0) -> Turn:
    ids = {"context_ids": (number, 1), "action_ids": (number, 2)}
    return Turn(observation=f"o{number}", action=f"a{number}", role=role, thread=thread, **ids)


def episode(*turns: Turn) -> Trajectory:
    return Trajectory(
        task=Task(env="e", id="t", split="train"),
        seed=0,
        turns=turns,
        outcome="success",
        reward=1.0,
        policy="p",
        round=1,
    )


def test_without_roles_the_episode_is_one_conversation():
    one = episode(turn(number=1), turn(number=2))
    (found,) = conversations_of(one)
    assert not has_roles(one)
    assert (found.token_ids, found.loss_mask) == (one.token_ids, one.loss_mask)


def test_turns_of_equal_role_and_thread_are_one_conversation_in_their_order():
    turns = [turn("a", 0, 1), turn("b", 0, 2), turn("b", 1, 3), turn("a", 0, 4)]
    found = {(one.role, one.thread): one.turns for one in conversations_of(episode(*turns))}
    assert found == {
        ("a", 0): (turns[0], turns[3]),
        ("b", 0): (turns[1],),
        ("b", 1): (turns[2],),
    }


def test_parallel_conversations_with_one_prompt_count_as_one():
    turns = [turn("a", 0, 1), turn("b", 0, 2), turn("b", 1, 2), turn("b", 2, 3)]
    weights = [weight for _, weight in weighed(conversations_of(episode(*turns)))]
    assert weights == [1, 0.5, 0.5, 1]


def test_the_same_words_by_another_role_are_another_lesson():
    digests = {episode(turn(role)).content_digest for role in ("", "a", "b")}
    assert len(digests) == 3


def test_a_role_sees_its_own_conversation_only():
    seen: list[Dialogue] = []

    def choose(dialogue: Dialogue, seed: int) -> str:
        seen.append(dialogue)
        return RIGHT[dialogue.role]

    games = choose_games(Errand().tasks("train"), 2, seed=0)
    played = rollout(games, Errand, ScriptedPolicy(choose), round=1, batch=2, seed=0)
    assert all(one.success for one in played)
    assert [(t.role, t.thread) for t in played[0].turns] == [
        ("planner", 0),
        ("worker", 0),
        ("worker", 1),
        ("planner", 0),
    ]
    for dialogue in seen:
        assert {(t.role, t.thread) for t in dialogue.turns} <= {(dialogue.role, dialogue.thread)}
        assert dialogue.system == Errand().role_prompts[dialogue.role]
    assert [len(dialogue.turns) for dialogue in seen[::2]] == [0, 0, 0, 1]


def test_each_at_its_own_pace_sees_the_same():
    games = choose_games(Errand().tasks("train"), 2, seed=0)
    policy = ScriptedPolicy(lambda dialogue, seed: RIGHT[dialogue.role])
    how = {"round": 1, "batch": 2, "seed": 0}
    paced = rollout_at_own_pace(games, Errand, policy, in_flight=2, step_seconds=9.0, **how)
    assert paced == rollout(games, Errand, policy, **how)


def test_the_expert_demonstrates_every_role():
    (shown,) = demonstrate(choose_games(Errand().tasks("train"), 1, seed=0), Errand)
    assert [t.role for t in shown.turns] == ["planner", "worker", "worker", "planner"]


class Impostor(Errand):
    """Says that somebody acts of whom it has no prompt."""

    def acting(self):
        return super().acting()._replace(role="walker")


def test_an_environment_with_roles_is_checked():
    where = "tests.toys.errand_world:Errand"
    report = check_env(where, tasks=2, hash_seeds=(), actions=tuple(RIGHT.values()))
    assert report.ok, report
    assert report.checks[0].detail == "with an expert, roles planner, worker"
    found = check_env(f"{__name__}:Impostor", tasks=2, hash_seeds=())
    assert "did you mean 'worker'" in str([one.detail for one in found.checks if not one.ok])
