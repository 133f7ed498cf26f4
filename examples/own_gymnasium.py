"""A Gymnasium environment of your own in Fed-SE. Check it: python examples/own_gymnasium.py"""

from fedse_bridges.gymnasium_text import GymnasiumText

MOVES = ("south", "north", "east", "west", "pickup", "dropoff")
STOPS = ("at 0,0", "at 0,4", "at 4,0", "at 4,3", "in the taxi")


def render(observation: int) -> str:
    """Taxi-v4 packs row, column, passenger and destination into one number."""
    place, goal = divmod(observation, 4)
    cell, passenger = divmod(place, 5)
    return f"Taxi at {cell // 5},{cell % 5}. Passenger {STOPS[passenger]}. Goal {STOPS[goal]}."


def taxi() -> GymnasiumText:
    """The environment; `fedse run` takes it as env = "own_gymnasium:taxi"."""
    prompt = f"Bring the passenger to the goal. Answer Action: and one of {', '.join(MOVES)}."
    return GymnasiumText(
        env="Taxi-v4", render=render, parse=MOVES.index, system_prompt=prompt, name="taxi"
    )


if __name__ == "__main__":
    from fedse.envs.conformance.check import check_env

    report = check_env("own_gymnasium:taxi", tasks=5, actions=MOVES)
    for check in report.checks:
        print("ok  " if check.ok else "FAIL", check.name, "-", check.detail, check.todo)
    raise SystemExit(not report.ok)
