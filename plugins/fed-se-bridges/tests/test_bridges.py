"""The bridges that run the user's world here: Gymnasium in this process, MCP in a child's."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedse.agent.policy import Dialogue, Reply
from fedse.envs.base import ExpertEnv, make_env
from fedse.envs.conformance.check import check_env
from fedse.errors import ConfigError, EnvError
from fedse.method.rollout import Game, rollout
from fedse_bridges.mcp_call import MAX_DEPTH, ToolCall, call_of, written
from fedse_bridges.mcp_tools import McpTools
from tests.envs.kept import assert_all_kept
from tests.needs import needs

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GYMNASIUM = "gymnasium"
MCP = "mcp"
TAXI: dict[str, Any] = {
    "env": "Taxi-v4",
    "render": "own_gymnasium:render",
    "parse": "bridge_functions:parse",
    "expert": "bridge_functions:shortest",
    "actions": ["south", "north", "east", "west", "pickup", "dropoff"],
    "success": 19.0,
}
SERVER = [sys.executable, str(ROOT / "examples" / "customer_service" / "server.py")]
SUPPORT: dict[str, Any] = {
    "command": SERVER,
    "tasks": "support:tasks",
    "success": "support:success",
    "expert": "support:expert",
    "state": "dump",
    "reset_tool": "load",
    "name": "support",
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (HERE, ROOT / "examples", ROOT / "examples" / "customer_service"):
        monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def support() -> Iterator[McpTools]:
    needs("mcp")
    env = make_env(MCP, SUPPORT)
    assert isinstance(env, McpTools)
    yield env
    env.close()


class Says:
    """A policy that always says the same."""

    name = "says"

    def __init__(self, text: str) -> None:
        self._reply = Reply(text)

    def act(self, dialogues: list[Dialogue], *, seed: int) -> list[Reply | None]:
        return [self._reply for _ in dialogues]


class TestGymnasium:
    needs("gymnasium")

    def test_it_keeps_every_promise_with_an_expert(self) -> None:
        assert_all_kept(check_env(GYMNASIUM, TAXI, tasks=5))

    def test_it_keeps_every_promise_without_an_expert(self) -> None:
        options = {name: TAXI[name] for name in ("env", "render", "parse")}
        report = check_env(GYMNASIUM, options, tasks=3, actions=TAXI["actions"], hash_seeds=())
        assert report.failed == (), report.checks
        assert not isinstance(make_env(GYMNASIUM, options), ExpertEnv)

    def test_success_may_be_a_function(self) -> None:
        env = make_env(GYMNASIUM, {**TAXI, "success": "bridge_functions:delivered"})
        assert isinstance(env, ExpertEnv)
        step = env.reset(env.tasks("test")[3], seed=0)
        while not step.done:
            step = env.step(env.expert())
        assert step.success
        assert step.reward == 20

    @settings(max_examples=50, deadline=None)
    @given(texts=st.lists(st.text(), min_size=1, max_size=30))
    def test_no_text_raises(self, texts: list[str]) -> None:
        env = make_env(GYMNASIUM, {**TAXI, "max_turns": 30})
        step = env.reset(env.tasks("train")[0], seed=0)
        for text in texts:
            if not step.done:
                step = env.step(text)
        assert step.done == (len(texts) == 30)

    def test_a_failing_step_becomes_a_broken_episode(self) -> None:
        options = {**TAXI, "env": "bridge_functions:Breaks"}
        env = make_env(GYMNASIUM, options)
        game = Game(env.tasks("train")[0], 0)
        [played] = rollout(
            [game], lambda: make_env(GYMNASIUM, options), Says("south"), round=1, batch=1, seed=0
        )
        assert played.outcome == "broken"
        assert "ZeroDivisionError: inside the user's step" in (played.error or "")

    def test_ids_of_gymnasiums_own_kind_stay_ids(self) -> None:
        env = make_env(GYMNASIUM, {**TAXI, "env": "gymnasium.envs.toy_text:Taxi-v4"})
        assert env.reset(env.tasks("train")[0], seed=0).observation.startswith("Taxi at")

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("render", "own_gymnasium", "module:function"),
            ("render", "own_gymnasium:nothing", "importable"),
            ("render", "own_gymnasium:MOVES", "found tuple"),
            ("parse", "no_such_module:parse", "importable"),
            ("success", True, "a number or a function"),
            ("train_tasks", 0, "at least 1"),
            ("actions", [], "some actions"),
        ],
    )
    def test_a_wrong_option_is_named(self, option: str, value: Any, expected: str) -> None:
        with pytest.raises(ConfigError, match=option) as caught:
            make_env(GYMNASIUM, {**TAXI, option: value})
        assert expected in str(caught.value)


class TestCalls:
    @given(st.text())
    def test_any_text_is_a_call_or_none(self, text: str) -> None:
        assert call_of(text) is None or isinstance(call_of(text), ToolCall)

    @given(
        st.text(st.characters(codec="utf-8")),
        st.dictionaries(
            st.text(st.characters(codec="utf-8")),
            st.one_of(st.text(st.characters(codec="utf-8")), st.integers(), st.booleans()),
        ),
    )
    def test_what_is_written_is_read(self, tool: str, arguments: dict[str, Any]) -> None:
        call = ToolCall(tool, arguments)
        assert call_of(f"Thought: {{maybe}} or action: none\n{written(call)}") == call

    @pytest.mark.parametrize(
        "text",
        [
            'Action: {"tool": "refund", "arguments": {"amount": NaN}}',
            'Action: {"tool": "refund", "arguments": {"amount": 1e999}}',
            'Action: {"tool": "refund", "arguments": {"order": "\\ud800"}}',
            'Action: {"tool": "refund", "arguments": [1]}',
            'Action: {"tool": 3}',
            'Action: {"tool": "a", "arguments": {"x": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}}",
            "Action: " + '{"a":' * 100_000,
            "Action: refund(7)",
        ],
    )
    def test_what_the_wire_cannot_carry_is_no_call(self, text: str) -> None:
        assert call_of(text) is None

    @pytest.mark.parametrize("text", ["finish", "Thought: all done.\nAction: Finish.", "`finish`"])
    def test_finish_is_read_leniently(self, text: str) -> None:
        assert call_of(text) == ToolCall("finish", {})

    def test_a_call_may_span_lines(self) -> None:
        text = 'Action: {\n "tool": "look_up",\n "arguments": {"order": "7"}\n}\nI wait.'
        assert call_of(text) == ToolCall("look_up", {"order": "7"})


def servers() -> list[int]:
    """The shop's servers that this process has running now."""
    running = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            running += [child.pid] if SERVER[1] in child.cmdline() else []
    return running


class TestMcp:
    @pytest.mark.slow
    @pytest.mark.parametrize("fresh_process", [False, True])
    def test_it_keeps_every_promise(self, fresh_process: bool) -> None:
        needs("mcp")
        options = {**SUPPORT, "fresh_process": fresh_process}
        assert_all_kept(check_env(MCP, options, tasks=1, hash_seeds=(1,)))

    def test_the_expert_solves_every_task_and_haste_does_not(self, support: McpTools) -> None:
        for task in support.tasks("test"):
            step = support.reset(task, seed=0)
            while not step.done:
                step = support.step(support.expert())
            assert step.success, task
        hasty = [support.reset(t, seed=0) and support.step("finish") for t in support.tasks("test")]
        assert 0 < sum(step.success for step in hasty) < len(hasty) / 2

    def test_only_the_tools_for_the_agent_are_offered(self, support: McpTools) -> None:
        assert "look_up" in support.system_prompt
        assert "load" not in support.system_prompt
        support.reset(support.tasks("train")[0], seed=0)
        answer = support.step(written(ToolCall("load", {"shop": {}})))
        assert answer.observation.startswith("There is no tool 'load'")

    def test_what_the_agent_gets_wrong_is_answered(self, support: McpTools) -> None:
        support.reset(support.tasks("train")[0], seed=0)
        for arguments in ({}, {"order": 3}, {"order": "7", "amount": 1e300}, {"x": "y" * 200_000}):
            assert not support.step(written(ToolCall("refund", arguments))).done

    def test_turns_run_out(self, support: McpTools) -> None:
        support.max_turns = 3
        support.reset(support.tasks("train")[0], seed=0)
        assert [support.step("hm").done for _ in range(3)] == [False, False, True]

    def test_a_killed_server_breaks_the_episode_and_only_that(self, support: McpTools) -> None:
        task = support.tasks("train")[0]
        support.reset(task, seed=0)
        [pid] = servers()
        os.kill(pid, 9)
        with pytest.raises(EnvError, match="broke off in tools/call"):
            support.step(written(ToolCall("look_up", {"order": "7"})))
        with pytest.raises(EnvError, match="no episode is open"):
            support.step("finish")
        assert support.reset(task, seed=0).observation

    def test_fresh_process_means_that(self) -> None:
        needs("mcp")
        env = make_env(MCP, {**SUPPORT, "fresh_process": True})
        assert isinstance(env, McpTools)
        pids = []
        for _ in range(2):
            env.reset(env.tasks("train")[0], seed=0)
            pids += servers()
        env.close()
        assert len(set(pids)) == 2
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    @pytest.mark.parametrize(
        ("program", "timeout", "cause"),
        [
            ("import time; time.sleep(3600)", 1.0, "gave no answer to initialize in 1 s"),
            ("print('hello')", 3600.0, "expected JSON on its stdout, got b'hello"),
            ("raise SystemExit('no licence')", 3600.0, "its stderr ends with: no licence"),
        ],
    )
    def test_a_server_that_does_not_speak_mcp_is_told_so(
        self, program: str, timeout: float, cause: str
    ) -> None:
        """Whoever waited for the whole hour would not end before the test is ended."""
        command = [sys.executable, "-c", program]
        with pytest.raises(EnvError) as caught:
            make_env(MCP, {**SUPPORT, "command": command, "timeout": timeout})
        assert cause in str(caught.value)

    def test_a_missing_program_is_named(self) -> None:
        with pytest.raises(EnvError, match="'/no/such/server' does not start"):
            make_env(MCP, {**SUPPORT, "command": ["/no/such/server"]})

    def test_a_tool_the_server_lacks_is_named(self) -> None:
        needs("mcp")
        with pytest.raises(ConfigError, match="option state must be one of the server's tools"):
            make_env(MCP, {**SUPPORT, "state": "nothing"})
