"""What a user would write for the bridges under test, under names that TOML can give."""

from collections import deque
from typing import Any

MOVES = ("south", "north", "east", "west", "pickup", "dropoff")


def parse(text: str) -> int:
    return MOVES.index(text)


def shortest(env: Any) -> str:
    """The first move of a shortest way through Taxi's own transition table."""
    table, start = env.unwrapped.P, int(env.unwrapped.s)
    first: dict[int, int] = {start: -1}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for move in range(len(MOVES)):
            _, after, _, done = table[state][move][0]
            chosen = move if state == start else first[state]
            if done:
                return f"Action: {MOVES[chosen]}"
            if after not in first:
                first[after] = chosen
                queue.append(after)
    raise AssertionError("Taxi can always be solved")


def delivered(observation: Any, reward: float, terminated: bool, info: Any) -> bool:
    return terminated and reward == 20


class Breaks:
    """A Gymnasium environment that fails in its first step."""

    class action_space:
        @staticmethod
        def contains(move: Any) -> bool:
            return True

    def reset(self, seed: int) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, move: Any) -> Any:
        raise ZeroDivisionError("inside the user's step")

    def close(self) -> None: ...


def low(text: str) -> dict[str, str] | None:
    """An OpenEnv action: only one digit is one."""
    return {"guess": text} if text.isdecimal() and len(text) == 1 else None
