"""Any OpenEnv server over its WebSocket; the openenv package itself is not needed here.

    env = "openenv"
    options = { url = "ws://127.0.0.1:8000/ws", observation = "text", action = "guess" }

`observation` names the field of the server's observation that the agent reads, or is a function
(observation) -> text. `action` names the field that takes what follows the agent's last
`Action:`, or is a function (text) -> action fields; functions are `module:function` in TOML, and
signal "no action" by None, ValueError or LookupError.

Tasks are seeds, or with `task_api = "<the server's env name>"` the server's own lists of the
splits `train` and `test`, chosen by reset(split, index) as the Task API has it. A done episode is
a success when its last reward is above `success`, or when the function `success(observation,
reward)` says so. A turn budget used up is a failure. Actions the server's schema refuses are
answered; codes in `answered_errors` say which errors those are. Every other error, a lost
connection or an answer later than `timeout` breaks the episode.

The server needs max_concurrent_envs of at least rollout.batch.
"""

import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from socket import create_connection
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.uri import parse_uri

from fedse import EnvError, Step, Task
from fedse.envs import Split, action_of, boundary, require_positive, wrong_option
from fedse_bridges.http_json import MAX_ANSWER, ask
from fedse_bridges.parts import (
    NO_ACTION,
    named_function,
    no_episode,
    of_split,
    seeds_as_tasks,
    success_rule,
    unknown_task,
)

# Seconds a closing handshake may take; a dead server must not hold up the next episode.
CLOSE_TIMEOUT = 2.0
# The generators of many environments take no larger seed.
SEED_LIMIT = 2**31


class OpenEnv:
    """An environment (fedse.Env) played on a server, one session per instance."""

    def __init__(
        self,
        *,
        url: str,
        observation: str | Callable[[Mapping[str, Any]], str] = "text",
        action: str | Callable[[str], Mapping[str, Any] | None] = "message",
        task_api: str | None = None,
        train_tasks: int = 200,
        test_tasks: int = 50,
        success: float | str | Callable[[Mapping[str, Any], float], bool] = 0.0,
        answered_errors: Sequence[str] = ("VALIDATION_ERROR",),
        name: str = "openenv",
        system_prompt: str = "",
        max_turns: int = 30,
        timeout: float = 60.0,
    ) -> None:
        if not url.startswith(("ws://", "wss://")):
            raise wrong_option(name, "url", url, "a WebSocket such as ws://127.0.0.1:8000/ws")
        require_positive(name, "max_turns", max_turns)
        self.name, self.system_prompt, self.max_turns = name, system_prompt, max_turns
        self._url, self._timeout = url, timeout
        self._text = _reader(name, observation)
        self._fields = _writer(name, action)
        self._succeeded = success_rule(name, success)
        self._answered = frozenset(answered_errors)
        # Only a function can make the set of fields depend on the agent's text.
        self._fixed_fields = isinstance(action, str) and ":" not in action
        self._starts = (
            _seeded_tasks(name, train_tasks, test_tasks)
            if task_api is None
            else _served_tasks(name, url, task_api, timeout)
        )
        self._session: Any = None
        self._hang_up: Callable[[], object] = lambda: None
        self._turns: int | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        return of_split(self._starts, split)

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._starts:
            raise unknown_task(self.name, task)
        self._turns = None
        if self._session is None:
            self._connect()
        start = {"seed": seed % SEED_LIMIT, **self._starts[task]}
        answer = self._exchange("reset", start)
        if answer["type"] == "error":
            raise self._lost(f"refused to reset to {start}: {answer['data']}")
        self._turns = 0
        return self._step_of(answer["data"], out_of_turns=False)

    def step(self, action: str) -> Step:
        if self._turns is None:
            raise no_episode(self.name)
        turn, self._turns = self._turns + 1, None  # a step that raises leaves no episode open
        last = turn >= self.max_turns
        fields = self._fields(action)
        if fields is None:
            step = Step(NO_ACTION, done=last, valid=False)
        else:
            answer = self._exchange("step", fields)
            step = self._answer_of(answer, out_of_turns=last)
        self._turns = None if step.done else turn
        return step

    def close(self) -> None:
        self._session, self._turns = None, None
        self._hang_up()

    def _connect(self) -> None:
        line = ExitStack()
        with boundary(EnvError, f"{self.name}: no OpenEnv server answers at {self._url}"):
            there = parse_uri(self._url)
            opening = connect(
                self._url,
                # A connection that is there already keeps websockets from following redirects.
                sock=create_connection((there.host, there.port), self._timeout),
                open_timeout=self._timeout,
                close_timeout=CLOSE_TIMEOUT,
                max_size=MAX_ANSWER,
                proxy=None,  # the server is on this machine or in this network
            )
            self._session = line.enter_context(opening)
        self._hang_up = weakref.finalize(self, line.close)

    def _exchange(self, kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            message = json.dumps({"type": kind, "data": data}, allow_nan=False)
            # A full server sends an error and closes at once; its error can still be read.
            with suppress(ConnectionClosed):
                self._session.send(message)
            answer: Mapping[str, Any] = json.loads(self._session.recv(timeout=self._timeout))
            wanted = answer["type"] in ("observation", "error") and "data" in answer
        except TimeoutError as error:
            raise self._lost(f"gave no answer to {kind} in {self._timeout:g} s") from error
        except Exception as error:
            raise self._lost(f"broke off in {kind}: {type(error).__name__}: {error}") from error
        if not wanted:
            raise self._lost(f"expected an observation or an error, got {answer!r:.200}")
        return answer

    def _lost(self, what: str) -> EnvError:
        """The session is ended, as a late answer could be taken for the next one."""
        self.close()
        hint = f"see the log of the server at {self._url}"
        if "CAPACITY_REACHED" in what:
            hint = "start the server with max_concurrent_envs of at least rollout.batch"
        return EnvError(f"{self.name}: the OpenEnv server {what}", hint=hint)

    def _answer_of(self, answer: Mapping[str, Any], *, out_of_turns: bool) -> Step:
        if answer["type"] == "observation":
            return self._step_of(answer["data"], out_of_turns=out_of_turns)
        causes = {cause.get("type") for cause in answer["data"].get("errors") or ()}
        if self._fixed_fields and causes & {"missing", "extra_forbidden"}:
            raise self._lost(f"has other action fields than option action says: {answer['data']}")
        if answer["data"].get("code") not in self._answered:
            raise self._lost(f"failed in step: {answer['data']!r:.300}")
        return Step(NO_ACTION, done=out_of_turns, valid=False)

    def _step_of(self, data: Mapping[str, Any], *, out_of_turns: bool) -> Step:
        with boundary(EnvError, f"{self.name}: the answer {data!r:.120}"):
            observation, reward = data["observation"], float(data.get("reward") or 0.0)
            ended = bool(data["done"])
            won = ended and bool(self._succeeded(observation, reward))
            return Step(self._text(observation), reward, ended or out_of_turns, won)


def _reader(name: str, given: object) -> Callable[[Mapping[str, Any]], str]:
    if isinstance(given, str) and ":" not in given:
        return lambda observation: str(observation[given])
    return named_function(name, "observation", given)


def _writer(name: str, given: object) -> Callable[[str], Mapping[str, Any] | None]:
    if isinstance(given, str) and ":" not in given:
        return lambda text: {given: action_of(text)}
    write = named_function(name, "action", given)

    def fields(text: str) -> Mapping[str, Any] | None:
        try:
            written: Mapping[str, Any] | None = write(action_of(text))
        except (ValueError, LookupError):
            return None
        return written

    return fields


def _seeded_tasks(name: str, train: int, test: int) -> Mapping[Task, Mapping[str, Any]]:
    seeds = seeds_as_tasks(name, train, test)
    return {task: {"seed": seed} for task, seed in seeds.items()}


@cache
def _served_tasks(
    name: str, url: str, server_env: str, timeout: float
) -> Mapping[Task, Mapping[str, Any]]:
    """Asked once per process, as a rollout makes many instances."""
    base = "http" + url.removeprefix("ws").removesuffix("/ws") + f"/{server_env}"
    splits: tuple[Split, ...] = ("train", "test")
    starts: dict[Task, Mapping[str, Any]] = {}
    for split in splits:
        with boundary(EnvError, f"{name}: tasks of split {split!r} at {base}"):
            count = int(ask(f"{base}/num_tasks", {"split": split}, timeout=timeout)["num_tasks"])
        for index in range(count):
            task = Task(env=name, id=f"{split}-{index}", split=split)
            starts[task] = {"split": split, "index": index}
    return starts
