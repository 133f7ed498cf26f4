"""An agent of several roles: its conversations are recorded one by one, by the model's name."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import needs

needs("starlette", "uvicorn")

from loopback import END, GAMES, Letters, bot, chat, endpoint, post, system, user

from fedse.agent.policy import Reply
from fedse.types import Trajectory, Turn
from fedse_agents.conversation import conversation_of
from fedse_agents.record import PolicyInput, RecordedEpisode
from fedse_agents.refused import RequestRefused
from fedse_agents.rewards import EndReport, reported

ROLES = ("planner", "worker")
WON = EndReport(1.0)


def test_each_role_has_conversations_of_its_own() -> None:
    policy = Letters()
    with endpoint(policy, roles=ROLES) as running:
        episode = running.open()
        url = episode["base_url"]
        plan = [system("plan"), user("ab")]
        plan.append(bot(chat(url, plan, model="planner")))
        for part in ("cd", "cd"):
            chat(url, [system("do"), user(part)], model="worker")
        chat(url, [*plan, user("ef")], model="planner")
        ended = post(episode["reward_url"], {"reward": 1, "rewards": {"worker": 0}})
        played = running.recorded()[0]
    assert ended == (200, {"outcome": "success", "turns": 4, "dropped": 0})
    assert [(turn.role, turn.thread, turn.observation) for turn in played.turns] == [
        ("planner", 0, "ab"),
        ("worker", 0, "cd"),
        ("worker", 1, "cd"),
        ("planner", 0, "ef"),
    ]
    assert played.role_rewards == (("worker", 0.0),)
    assert [dialogue.role for dialogue in policy.seen] == ["planner", "worker", "worker", "planner"]
    assert policy.seen[3].turns == played.turns[:1]


def test_an_unknown_role_is_an_error_that_names_the_roles() -> None:
    with endpoint(Letters(), roles=ROLES) as running:
        url = running.open()["base_url"]
        for route in ("chat/completions", "responses"):
            said = {"messages": [user("ab")]} if "chat" in route else {"input": "ab"}
            status, told = post(f"{url}/{route}", {"model": "plannar", **said})
            assert (status, told["error"]["code"]) == (404, "model_not_found")
            assert "planner, worker; got 'plannar'" in told["error"]["message"]
            assert "did you mean 'planner'?" in told["error"]["message"]


def test_an_agent_without_roles_may_ask_for_any_model() -> None:
    with endpoint(Letters()) as running:
        episode = running.open()
        chat(episode["base_url"], [user("ab")], model="planner")
        post(episode["reward_url"], {"reward": 1})
        (turn,) = running.recorded()[0].turns
    text = '{"observation":"ab","action":" 0:ab ","context_ids":[97,98],'
    ids = ",".join(map(str, [*map(ord, " 0:ab "), END]))
    assert turn.model_dump_json() == f'{text}"action_ids":[{ids}],"learned":true}}'


def test_a_reward_of_an_unknown_role_is_refused() -> None:
    with endpoint(Letters(), roles=ROLES) as running:
        episode = running.open()
        chat(episode["base_url"], [user("ab")], model="planner")
        for wrong in ({"critic": 1.0}, {"planner": "much"}, [1]):
            status, told = post(episode["reward_url"], {"reward": 1, "rewards": wrong})
            assert (status, told["error"]["code"]) == (400, "bad_reward")
        assert post(episode["reward_url"], {"reward": 1})[0] == 200


def test_play_may_return_rewards_of_roles() -> None:
    assert reported(1.0, ()) == WON
    assert reported((0.5, {"worker": 1}), ROLES) == EndReport(0.5, None, (("worker", 1.0),))
    with pytest.raises(RequestRefused, match="critic"):
        reported((0.5, {"critic": 1}), ROLES)


class Talk:
    """A program's side of one conversation of a role: it asks, waits, and asks on."""

    def __init__(self, role: str, opening: str) -> None:
        self.role, self.messages = role, [system(role), user(opening)]
        self.waiting: PolicyInput | None = None
        self.said: list[tuple[str, str]] = []

    def go_on(self, episode: RecordedEpisode, name: int) -> None:
        """Asks the next question, or gets the answer of the last one."""
        if self.waiting is None:
            conversation = conversation_of(self.messages)
            self.waiting = episode.ask(conversation, None, model=self.role)
            return
        # Half of the answers are alike, so conversations cannot always be told apart by them.
        text = f"{self.waiting.dialogue.observation}{name if name % 2 else ''}"
        ids = tuple(map(ord, text))
        reply = episode.take(self.waiting, Reply(text, (name,), ids))
        self.said.append((self.waiting.dialogue.observation, text))
        self.messages += [bot(reply.text), user(str(len(self.said)))]
        self.waiting = None


def recorded(episode: RecordedEpisode) -> dict[tuple[str, int], list[Turn]]:
    found: dict[tuple[str, int], list[Turn]] = {}
    for turn in episode.trajectory(policy="p", round=1).turns:
        found.setdefault((turn.role, turn.thread), []).append(turn)
    return found


def texts(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.observation, turn.action) for turn in turns]


@given(
    st.lists(st.tuples(st.sampled_from(ROLES), st.sampled_from("ab")), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=40),
)
def test_each_conversation_is_recorded_in_order_whatever_the_interleaving(
    openings: list[tuple[str, str]], order: list[int]
) -> None:
    episode = RecordedEpisode(GAMES[0], max_turns=100, opened=0.0, roles=ROLES)
    talks = [Talk(*opening) for opening in openings]
    for step in order:
        talks[step % len(talks)].go_on(episode, step % len(talks))
    for number, talk in enumerate(talks):
        if talk.waiting is not None:
            talk.go_on(episode, number)
    given = sorted((talk.role, talk.said) for talk in talks if talk.said)
    assert sorted((role, texts(turns)) for (role, _), turns in recorded(episode).items()) == given
    for role in ROLES:
        threads = [thread for found, thread in recorded(episode) if found == role]
        assert sorted(threads) == list(range(len(threads)))
    assert all(turn.learned for turn in episode.turns)
    assert episode.recorded == episode.answers == len(episode.turns)


def asked(episode: RecordedEpisode, *messages: object) -> PolicyInput:
    return episode.ask(conversation_of([*messages]), None, model="planner")


def answered(episode: RecordedEpisode, question: PolicyInput, text: str) -> None:
    episode.take(question, Reply(text, (1,), (2, 3)))


@pytest.fixture
def episode() -> RecordedEpisode:
    return RecordedEpisode(GAMES[0], max_turns=9, opened=0.0, roles=ROLES)


def test_two_answers_to_one_question_are_two_conversations(episode: RecordedEpisode) -> None:
    answered(episode, asked(episode, user("ab")), "x")
    both = [asked(episode, user("ab"), bot("x"), user(way)) for way in ("left", "right")]
    for question, text in zip(both, ("l", "r"), strict=True):
        answered(episode, question, text)
    talks = recorded(episode)
    assert texts(talks["planner", 0]) == [("ab", "x"), ("left", "l")]
    assert texts(talks["planner", 1]) == [("ab", "x"), ("right", "r")]
    assert [turn.learned for turn in talks["planner", 1]] == [False, True]
    assert [question.dialogue.turns[0].action for question in both] == ["x", "x"]


def test_a_question_without_an_answer_leaves_its_place(episode: RecordedEpisode) -> None:
    answered(episode, asked(episode, user("ab")), "x")
    lost = asked(episode, user("ab"), bot("x"), user("cd"))
    episode.leave(lost)
    answered(episode, asked(episode, user("ab"), bot("x"), user("cd")), "y")
    assert texts(recorded(episode)["planner", 0]) == [("ab", "x"), ("cd", "y")]


def test_a_program_that_is_killed_and_repeated_leaves_equal_records() -> None:
    """What the first attempt said in the open episode is no part of the second one's."""

    def attempt(turns: int) -> Trajectory:
        episode = RecordedEpisode(GAMES[0], max_turns=9, opened=0.0, roles=ROLES)
        talk = Talk("planner", "ab")
        for _ in range(2 * turns):
            talk.go_on(episode, 1)
        if turns < 3:
            episode.break_off("killed")
        else:
            episode.close(WON)
        return episode.trajectory(policy="p", round=1)

    broken, repeated = attempt(1), attempt(3)
    assert broken.outcome == "broken"
    assert repeated == attempt(3)
    assert repeated.turns[0] == broken.turns[0]


def test_models_are_the_roles() -> None:
    import httpx

    with endpoint(Letters(), roles=ROLES) as running:
        url = running.open()["base_url"]
        told = httpx.get(f"{url}/models", verify=False, trust_env=False).json()
    assert [model["id"] for model in told["data"]] == list(ROLES)
