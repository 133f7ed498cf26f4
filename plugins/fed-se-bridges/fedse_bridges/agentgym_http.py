"""AgentGym's HTTP environment servers, with what differs between them as options.

    env = "agentgym"
    options = { url = "http://127.0.0.1:8000", train = [0, 400], test = [400, 500] }

The defaults fit its TextCraft and BabyAI servers. The others differ so:

    maze      url = ".../maze", reset_key = "game", closes = false
    wordle    url = ".../wordle", reset_key = "seed", closes = false
    webshop   id_key = "env_idx", reset_key = "session_id", observation_key = "state",
              closes = false

`train` and `test` are half-open ranges of the server's task numbers. A done episode is a success
when its last reward is above `success` (AgentGym's own thresholds: 0 for BabyAI, 0.99 for the
others), or when the function `success(reply, reward)` says so. A turn budget used up is a failure.

These servers answer {"error": ...} with HTTP 200, both for text they cannot parse and for an id
they no longer have. So an error breaks the episode, unless `answer_errors = true`;
then the agent reads the error. A lost connection or an answer after `timeout` always breaks it.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fedse import EnvError, Step, Task
from fedse.envs import Split, action_of, boundary, require_positive, wrong_option
from fedse_bridges.http_json import ask
from fedse_bridges.parts import no_episode, of_split, success_rule, unknown_task

# Seconds; a server that is gone must not hold up the end of a rollout.
CLOSE_TIMEOUT = 2.0


class AgentGym:
    """An environment (fedse.Env) played on a server, one environment id per instance."""

    def __init__(
        self,
        *,
        url: str,
        train: Sequence[int],
        test: Sequence[int],
        id_key: str = "id",
        reset_key: str = "data_idx",
        observation_key: str = "observation",
        closes: bool = True,
        answer_errors: bool = False,
        success: float | str | Callable[[Any, float], bool] = 0.99,
        name: str = "agentgym",
        system_prompt: str = "",
        max_turns: int = 20,
        timeout: float = 60.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise wrong_option(name, "url", url, "an address such as http://127.0.0.1:8000")
        require_positive(name, "max_turns", max_turns)
        self.name, self.system_prompt, self.max_turns = name, system_prompt, max_turns
        self._url, self._timeout = url.rstrip("/"), timeout
        self._id_key, self._reset_key = id_key, reset_key
        self._observation_key = observation_key
        self._closes, self._answers_errors = closes, answer_errors
        self._succeeded = success_rule(name, success)
        self._numbers = _numbered_tasks(name, train, test)
        self._id: int | None = None
        self._leave: Callable[[], object] = lambda: None
        self._turns: int | None = None

    def tasks(self, split: Split) -> Sequence[Task]:
        return of_split(self._numbers, split)

    def reset(self, task: Task, *, seed: int) -> Step:
        if task not in self._numbers:
            raise unknown_task(self.name, task)
        self._turns = None
        if self._id is None:
            self._create()
        reply = self._request("reset", {self._reset_key: self._numbers[task]})
        if _error_in(reply):
            raise self._failed("reset", reply)
        self._turns = 0
        with boundary(EnvError, f"{self.name}: the answer {reply!r:.120} to reset"):
            return Step(self._observation(reply))

    def step(self, action: str) -> Step:
        if self._turns is None:
            raise no_episode(self.name)
        turn, self._turns = self._turns + 1, None  # a step that raises leaves no episode open
        reply = self._request("step", {"action": action_of(action)})
        step = self._step_of(reply, out_of_turns=turn >= self.max_turns)
        self._turns = None if step.done else turn
        return step

    def close(self) -> None:
        self._id, self._turns = None, None
        self._leave()

    def _create(self) -> None:
        reply = ask(f"{self._url}/create", {}, timeout=self._timeout)
        if _error_in(reply):
            raise self._failed("create", reply)
        with boundary(EnvError, f"{self.name}: the answer {reply!r:.120} to create"):
            self._id = int(reply if isinstance(reply, int) else reply[self._id_key])
        if self._closes:
            self._leave = weakref.finalize(self, _leave, self._url, {self._id_key: self._id})

    def _request(self, what: str, body: Mapping[str, Any]) -> Any:
        try:
            message = {self._id_key: self._id, **body}
            return ask(f"{self._url}/{what}", message, timeout=self._timeout)
        except EnvError:
            self._id = None  # a restarted server has no ids
            raise

    def _step_of(self, reply: Any, *, out_of_turns: bool) -> Step:
        error = _error_in(reply)
        if error and self._answers_errors:
            return Step(f"Error: {error}", done=out_of_turns)
        if error:
            raise self._failed("step", reply)
        with boundary(EnvError, f"{self.name}: the answer {reply!r:.120} to step"):
            reward, ended = float(reply["reward"]), bool(reply["done"])
            won = ended and bool(self._succeeded(reply, reward))
            return Step(self._observation(reply), reward, ended or out_of_turns, won)

    def _observation(self, reply: Any) -> str:
        if isinstance(reply, dict):
            return str(reply[self._observation_key])
        return str(reply[0] if isinstance(reply, list) else reply)

    def _failed(self, what: str, reply: Any) -> EnvError:
        self._id = None
        return EnvError(
            f"{self.name}: the AgentGym server at {self._url} failed in {what}: {reply!r:.300}",
            hint="see its log; if the agent's text is the cause, set answer_errors = true",
        )


def _error_in(reply: Any) -> str:
    return str(reply["error"]) if isinstance(reply, dict) and "error" in reply else ""


def _leave(url: str, server_id: Mapping[str, int]) -> None:
    with suppress(EnvError):
        ask(f"{url}/close", server_id, timeout=CLOSE_TIMEOUT)


def _numbered_tasks(name: str, train: Sequence[int], test: Sequence[int]) -> Mapping[Task, int]:
    ranges: dict[Split, Sequence[int]] = {"train": train, "test": test}
    for option, pair in ranges.items():
        if len(pair) != 2 or not 0 <= pair[0] < pair[1]:
            raise wrong_option(
                name, option, pair, "[first, one past the last] with at least one task"
            )
    if train[0] < test[1] and test[0] < train[1]:
        raise wrong_option(name, "test", test, f"apart from train {train}")
    return {
        Task(env=name, id=str(number), split=split): number
        for split, pair in ranges.items()
        for number in range(*pair)
    }
