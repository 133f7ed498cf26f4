"""MCP tools plus a success check: any MCP server process becomes an environment.

    env = "mcp"
    [clients.options]
    command = ["python", "server.py"]        # an MCP server on stdio
    tasks = "my_support:tasks"               # tasks(split) -> [{id, prompt, setup?, ...}]
    success = "my_support:success"           # success(state, task) -> bool
    state = "dump"                           # the tool, or the resource URI, that gives the state
    reset_tool = "load"                      # optional, called with the task's `setup`

MCP knows no reset, no reward and no end. So: without `reset_tool` every episode has a fresh
process; with it one process serves this instance's episodes, each begun by that call, unless
`fresh_process = true`. The agent writes `{"tool": ..., "arguments": {...}}` or `finish`. On
`finish` the state is read and `success` decides; a turn budget used up is a failure. The state
and reset tools are not the agent's.

What the agent gets wrong (no JSON, an unknown tool, arguments the server refuses) is answered and
costs the turn. A server that dies or is late breaks the episode. With `expert(task, steps) ->
text`, `steps` being the answers so far, the bridge can demonstrate. The seed given to `reset`
changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from fedse import EnvError, Step, Task
from fedse.envs import Split, boundary, require_positive, wrong_option
from fedse_bridges.mcp_call import (
    FINISH,
    ToolCall,
    call_of,
    manual,
    state_of,
    text_of,
    written,
)
from fedse_bridges.mcp_server import McpServer, Refused
from fedse_bridges.parts import NO_ACTION, named_function, no_episode, of_split, unknown_task

TaskData = Mapping[str, Any]


class McpTools:
    """An environment (fedse.Env); one with an expert exactly when `expert` is given."""

    actions: Callable[[], Sequence[str]]
    expert: Callable[[], str]

    def __init__(
        self,
        *,
        command: Sequence[str],
        tasks: str | Callable[[Split], Sequence[TaskData]],
        success: str | Callable[[Any, TaskData], bool],
        state: str,
        reset_tool: str | None = None,
        fresh_process: bool = False,
        name: str = "mcp",
        system_prompt: str = "",
        max_turns: int = 12,
        timeout: float = 60.0,
        expert: str | Callable[[TaskData, Sequence[Step]], str] | None = None,
    ) -> None:
        require_positive(name, "max_turns", max_turns)
        self.name, self.max_turns = name, max_turns
        self._command, self._timeout = tuple(command), timeout
        self._state, self._reset_tool = state, reset_tool
        self._keeps_server = reset_tool is not None and not fresh_process
        self._tasks = _task_data(name, named_function(name, "tasks", tasks))
        self._succeeded = named_function(name, "success", success)
        offered = _tools_of(self._command, timeout)
        _require_offered(name, offered, state=state, reset_tool=reset_tool)
        usable = [tool for tool in offered if tool["name"] not in (state, reset_tool)]
        self._tools = tuple(str(tool["name"]) for tool in usable)
        self.system_prompt = "\n\n".join(filter(None, (system_prompt, manual(usable))))
        self._server: McpServer | None = None
        self._task: TaskData | None = None
        self._steps: list[Step] = []
        if expert is not None:
            choose = named_function(name, "expert", expert)
            self.expert = lambda: str(choose(self._playing()[1], tuple(self._steps)))
            self.actions = lambda: (*(written(ToolCall(t, {})) for t in self._tools), FINISH)

    def tasks(self, split: Split) -> Sequence[Task]:
        return of_split(self._tasks, split)

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._tasks:
            raise unknown_task(self.name, task)
        self._task, data = None, self._tasks[task]
        if self._server is None or not (self._keeps_server and self._server.alive):
            self.close()
            self._server = McpServer(self._command, timeout=self._timeout)
        if self._reset_tool is not None:
            self._prepare(self._server, self._reset_tool, task.id, data.get("setup", {}))
        self._task, self._steps = data, [Step(str(data["prompt"]))]
        return self._steps[0]

    def step(self, action: str) -> Step:
        server, task = self._playing()
        self._task = None  # a step that raises leaves no episode open
        call = call_of(action)
        if call is not None and call.tool == FINISH:
            won = self._judge(server, task)
            answer = Step("Finished.", reward=float(won), done=True, success=won)
        else:
            observation = NO_ACTION if call is None else self._call(server, call)
            over = len(self._steps) >= self.max_turns
            answer = Step(observation, done=over, valid=call is not None)
        self._steps.append(answer)
        self._task = None if answer.done else task
        return answer

    def close(self) -> None:
        server, self._server, self._task = self._server, None, None
        if server is not None:
            server.end()

    def _playing(self) -> tuple[McpServer, TaskData]:
        if self._task is None or self._server is None:
            raise no_episode(self.name)
        return self._server, self._task

    def _call(self, server: McpServer, call: ToolCall) -> str:
        if call.tool not in self._tools:
            return f"There is no tool {call.tool[:80]!r}; the tools are {', '.join(self._tools)}."
        try:
            return text_of(server.call(call.tool, call.arguments))
        except Refused as refusal:
            return f"Error: {refusal}"

    def _prepare(self, server: McpServer, tool: str, task: str, setup: Mapping[str, Any]) -> None:
        with boundary(EnvError, f"{self.name}: reset tool {tool!r} for task {task!r}"):
            _require_done(server.call(tool, setup))

    def _judge(self, server: McpServer, task: TaskData) -> bool:
        with boundary(EnvError, f"{self.name}: success check of task {task['id']!r}"):
            read = server.read if "://" in self._state else lambda tool: server.call(tool, {})
            state = read(self._state)
            _require_done(state)
            return bool(self._succeeded(state_of(state), task))


def _require_done(result: Mapping[str, Any]) -> None:
    if result.get("isError"):
        raise Refused(text_of(result)[:200])


@cache
def _tools_of(command: tuple[str, ...], timeout: float) -> tuple[Mapping[str, Any], ...]:
    """Asked once per process and command, as a rollout makes many instances."""
    server = McpServer(command, timeout=timeout)
    with boundary(EnvError, f"MCP server {' '.join(command)!r}: tools/list"):
        tools = server.tools()
    server.end()
    return tools


def _task_data(name: str, tasks: Callable[[Split], Sequence[TaskData]]) -> Mapping[Task, TaskData]:
    data_of: dict[Task, TaskData] = {}
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        for data in tasks(split):
            if not {"id", "prompt"} <= set(data):
                raise wrong_option(name, "tasks", data, "a function whose tasks have id and prompt")
            data_of[Task(env=name, id=str(data["id"]), split=split)] = data
    return data_of


def _require_offered(
    name: str, offered: Sequence[Mapping[str, Any]], *, state: str, reset_tool: str | None
) -> None:
    tools = [str(tool["name"]) for tool in offered]
    wanted = {"state": state if "://" not in state else None, "reset_tool": reset_tool}
    for option, tool in wanted.items():
        if tool is not None and tool not in tools:
            raise wrong_option(name, option, tool, f"one of the server's tools {', '.join(tools)}")
