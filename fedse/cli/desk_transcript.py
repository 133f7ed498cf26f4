"""One customer of the desk, served by several adapters, with the shop's rule beside it."""

import json
from collections.abc import Sequence
from pathlib import Path

from fedse.cli.transcript import console_for, show_episode
from fedse.envs.desk.env import TOOLS, call_of, remedy_call, written
from fedse.envs.desk.shops import SHOPS, CustomerRequest, request_of
from fedse.exports.before_after import before_and_after
from fedse.exports.episodes import StoredEpisode, find_place, list_episodes, load_texts
from fedse.types import Trajectory


def show_one_customer(together: Path, alone: Sequence[Path]) -> None:
    """The same customer before the first round, by the shop alone and by all is on stdout."""
    pair = before_and_after(_episodes(together), [e for run in alone for e in _episodes(run)])
    if pair is None:
        return
    console = console_for(plain=False)
    print("\nthe same customer, before and after")
    print(rule_text(pair.before.game.task))
    for episode, trajectory in load_texts(pair.played()):
        who = {pair.before: "untrained", pair.alone: "alone"}.get(episode, "together")
        print(f"\n{who}:")
        show_episode(console, episode, trajectory)
        if trajectory and not trajectory.success:
            print(f"    {why_not(episode.game.task, trajectory)}")


def _episodes(run: Path) -> list[StoredEpisode]:
    return list_episodes(find_place(str(run), run.parent))


def rule_text(task: str) -> str:
    """What the shop of this task does in its case, such as `books/Ines-late-0-by-order`."""
    shop, request = _request(task)
    rule = SHOPS[shop].rules[request.case]
    return (
        f"the rule of the shop {shop!r} for an order that is {request.case}: {rule}\n"
        f"the right call is {written(remedy_call(shop, request))}"
    )


def why_not(task: str, episode: Trajectory) -> str:
    """Why the episode did not end as the rule asks."""
    said = episode.turns[-1].action if episode.turns else ""
    if call_of(said) is not None:
        return f"it ends with {said}, not with the call that the rule asks for"
    try:
        given = json.loads(said)
        tool, names = given["tool"], [name for name in given if name != "tool"]
        wanted = TOOLS[tool]
    except (ValueError, KeyError, TypeError):
        return "it ends with a text that calls no tool"
    return (
        f"{tool} takes {' and '.join(wanted)}; this call gives {' and '.join(names) or 'nothing'}"
    )


def _request(task: str) -> tuple[str, CustomerRequest]:
    shop, _, rest = task.partition("/")
    customer, case, order, *_ = rest.split("-")
    return shop, request_of(shop, customer, case, int(order))
