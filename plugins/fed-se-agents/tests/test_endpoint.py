"""The recording endpoint as an agent program meets it: over HTTP on the loopback."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.needs import needs

needs("starlette", "uvicorn")

from loopback import END, GAMES, Letters, bot, chat, endpoint, post, system, user

from fedse_agents.endpoint import MAX_BODY


def test_a_conversation_is_recorded_token_for_token() -> None:
    policy = Letters()
    with endpoint(policy) as running:
        episode = running.open()
        assert (episode["task"], episode["seed"]) == ("train-0", 0)
        said = [system("be brief"), user("ab")]
        said.append(bot(chat(episode["base_url"], said)))
        # A program may cut the blanks off what the model said.
        said[-1] = bot(said[-1]["content"].strip())
        said.append(user("cd"))
        chat(episode["base_url"], said)
        assert post(episode["reward_url"], {"reward": 0.5, "success": True}) == (
            200,
            {"outcome": "success", "turns": 2, "dropped": 0},
        )
        played = running.recorded()[0]
    assert [turn.observation for turn in played.turns] == ["ab", "cd"]
    assert [turn.action for turn in played.turns] == [" 0:ab ", " 1:cd "]
    assert played.token_ids == (*map(ord, "ab 0:ab "), END, *map(ord, "cd 1:cd "), END)
    assert sum(played.loss_mask) == 2 * len(" 0:ab ") + 2
    assert (played.outcome, played.reward, played.policy) == ("success", 0.5, "letters")
    assert policy.seen[1].turns == played.turns[:1]
    assert policy.seen[1].system == "be brief"


def test_a_rewritten_history_is_a_new_branch_and_the_last_one_counts() -> None:
    policy = Letters()
    with endpoint(policy) as running:
        episode = running.open()
        first = chat(episode["base_url"], [user("ab")])
        chat(episode["base_url"], [user("ab"), bot(first), user("cd")])
        chat(episode["base_url"], [user("summary"), bot("we never said"), user("ef")])
        told = post(episode["reward_url"], {"reward": 1})[1]
        played = running.recorded()[0]
    assert told == {"outcome": "success", "turns": 1, "dropped": 2}
    assert [turn.observation for turn in played.turns] == [
        "summary\n\n[assistant] we never said\n\nef"
    ]
    assert policy.seen[2].turns[0].action == "we never said"
    assert sum(played.loss_mask) == len(played.turns[0].action_ids)


def test_going_back_keeps_the_shared_turns() -> None:
    with endpoint(Letters()) as running:
        episode = running.open()
        first = chat(episode["base_url"], [user("ab")])
        chat(episode["base_url"], [user("ab"), bot(first), user("wrong way")])
        chat(episode["base_url"], [user("ab"), bot(first), user("other way")])
        assert post(episode["reward_url"], {"reward": 0})[1]["dropped"] == 1
        played = running.recorded()[0]
    assert [turn.observation for turn in played.turns] == ["ab", "other way"]
    assert played.outcome == "failure"


def test_two_conversations_of_one_episode_do_not_mix() -> None:
    with endpoint(Letters()) as running:
        episode = running.open()
        planner, doer = [system("plan"), user("ab")], [system("do"), user("ab")]
        for said in (planner, doer):
            said.append(bot(chat(episode["base_url"], said)))
        assert chat(episode["base_url"], [*planner, user("cd")]) == " 1:cd "
        assert chat(episode["base_url"], [*doer, user("ef")]) == " 1:ef "


def test_streams_end_as_openais_do() -> None:
    with endpoint(Letters()) as running:
        url = running.open()["base_url"] + "/chat/completions"
        body = {"messages": [user("ab")], "stream": True, "stream_options": {"include_usage": True}}
        status, text = post(url, body)
    assert status == 200
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    parts = [json.loads(event) for event in events]
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}
    said = [choice for part in parts for choice in part["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in said) == " 0:ab "
    assert said[-1]["finish_reason"] == "stop"
    assert parts[-1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 7, "total_tokens": 9}


def test_parts_and_tools_are_text_and_a_model_is_listed() -> None:
    policy = Letters()
    with endpoint(policy) as running:
        episode = running.open()
        parts = {"role": "user", "content": [{"type": "text", "text": "a"}]}
        chat(episode["base_url"], [parts, {"role": "tool", "content": "b"}], temperature=0.3)
        models = httpx.get(f"{episode['base_url']}/models", timeout=20, trust_env=False).json()
        assert models["data"][0]["id"] == "fedse"
    assert policy.seen[0].observation == "a\n\nb"


WRONG_CHATS: list[tuple[object, int, str]] = [
    (b"{not json", 400, "not_json"),
    (b"\xff\xfe", 400, "not_json"),
    ([1, 2], 400, "not_an_object"),
    ({}, 400, "no_messages"),
    ({"messages": []}, 400, "no_messages"),
    ({"messages": [{"role": "king", "content": "x"}]}, 400, "bad_message"),
    ({"messages": ["x"]}, 400, "bad_message"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "bad_message"),
    ({"messages": [{"role": "user", "content": 3}]}, 400, "bad_message"),
    ({"messages": [user("a"), bot("b")]}, 400, "nothing_asked"),
    ({"messages": [user("a")], "n": 2}, 400, "unsupported"),
    ({"messages": [user("a")], "tools": [{}]}, 400, "unsupported"),
    ({"messages": [user("a")], "stop": "x"}, 400, "unsupported"),
    ({"messages": [user("a")], "response_format": {"type": "json_object"}}, 400, "unsupported"),
    (b"[" * 100_000, 400, "not_json"),
    (b"x" * (MAX_BODY + 1), 413, "too_large"),
]
WRONG_REWARDS: list[tuple[object, int, str]] = [
    ({}, 400, "bad_reward"),
    ({"reward": "1"}, 400, "bad_reward"),
    ({"reward": True}, 400, "bad_reward"),
    (b'{"reward": NaN}', 400, "bad_reward"),
    (b'{"reward": 1e999}', 400, "bad_reward"),
    ({"reward": 1, "success": "yes"}, 400, "bad_success"),
]


def test_wrong_requests_are_told_what_is_wrong() -> None:
    with endpoint(Letters()) as running:
        episode = running.open()
        url = f"{episode['base_url']}/chat/completions"
        for body, status, code in WRONG_CHATS:
            got, told = post(url, body)
            assert (got, told["error"]["code"]) == (status, code), body
            assert told["error"]["message"]
        for body, status, code in WRONG_REWARDS:
            got, told = post(episode["reward_url"], body)
            assert (got, told["error"]["code"]) == (status, code), body
        assert chat(episode["base_url"], [user("still here")])


def test_unknown_closed_and_missing_episodes() -> None:
    with endpoint(Letters()) as running:
        root, key = running.at
        asked = {"messages": [user("a")]}
        assert post(f"{root}/episodes/nobody/v1/chat/completions", asked)[0] == 404
        assert post(f"{root}/elsewhere", {})[1]["error"]["code"] == "no_such_route"
        assert post(f"{root}/episodes", {}, key="guessed")[0] == 401
        assert post(f"{root}/episodes", {}, key=key, host="evil.example")[0] == 400
        episode = running.open()
        chat(episode["base_url"], [user("a")])
        assert post(episode["reward_url"], {"reward": 0})[0] == 200
        assert post(episode["reward_url"], {"reward": 1})[1]["error"]["code"] == "episode_closed"
        assert post(f"{episode['base_url']}/chat/completions", asked)[0] == 409
        for _ in GAMES[1:]:
            running.open()
        assert post(f"{root}/episodes", {}, key=key)[1]["error"]["code"] == "no_tasks_left"
        outcomes = [(played.outcome, played.error is None) for played in running.recorded()]
    assert outcomes == [("failure", True), *[("broken", False)] * 3]


def test_a_full_context_and_a_turn_limit_truncate() -> None:
    with endpoint(Letters(room=5), max_turns=1) as running:
        episode = running.open()
        url = f"{episode['base_url']}/chat/completions"
        full = post(url, {"messages": [user("more than five")]})
        assert (full[0], full[1]["error"]["code"]) == (400, "context_length_exceeded")
        chat(episode["base_url"], [user("a")])
        assert post(url, {"messages": [user("b")]})[1]["error"]["code"] == "turn_limit"
        assert post(episode["reward_url"], {"reward": 0})[1]["outcome"] == "truncated"


def test_success_without_a_question_is_broken() -> None:
    with endpoint(Letters()) as running:
        assert post(running.open()["reward_url"], {"reward": 1})[1]["outcome"] == "broken"


def test_requests_that_come_together_are_one_policy_call() -> None:
    policy = Letters()
    with endpoint(policy, batch=4) as running:
        urls = [running.open()["base_url"] for _ in GAMES]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda url: chat(url, [user("ab")]), urls)) == [" 0:ab "] * 4
    assert policy.batches == [4]
    assert (running.desk.calls, running.desk.answered) == (1, 4)
