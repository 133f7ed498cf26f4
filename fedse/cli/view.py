"""`fedse view [RUN]`: what the agents saw and said, from the clients' folders on this machine."""

import json as json_format
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from fedse.api.running import root_of
from fedse.cli.display import Json, Plain, plain_wanted
from fedse.cli.phrases import counted
from fedse.cli.transcript import console_for, show_episode, show_summary, summary_rows
from fedse.exports.episodes import (
    Place,
    StoredEpisode,
    Wanted,
    facts_of,
    find_place,
    list_episodes,
    load_texts,
    matching,
)
from fedse.types import Outcome, Split, Trajectory, Turn

RunOrHome = Annotated[str, Parameter(help="Path or id of a run, `last`, or a site's home.")]
Round = Annotated[int | None, Parameter(help="Only this round; 0 = demonstrations.")]
ClientName = Annotated[str | None, Parameter(help="Only this site.")]
EnvName = Annotated[str | None, Parameter(help="Only this environment.")]
OutcomeName = Annotated[Outcome | None, Parameter(help="Only episodes with this outcome.")]
SplitName = Annotated[Split | None, Parameter(help="train: explored. test: held out.")]
TaskId = Annotated[str | None, Parameter(help="Only this task.")]

# Episodes printed below a summary, and those printed when options select them.
FEW, SOME = 3, 10
LEGEND = "kept: learned from. held-out: played by the adapter the round starts with."
NOT_KEPT = (
    "to keep the text of all episodes from now on, set buffer.keep_played = true in the experiment "
    "file; the text of episodes that were learned from is always kept"
)


def view_verb(
    run: RunOrHome = "last",
    /,
    *,
    round: Round = None,
    client: ClientName = None,
    env: EnvName = None,
    outcome: OutcomeName = None,
    split: SplitName = None,
    task: TaskId = None,
    limit: Annotated[
        int | None,
        Parameter(help="Newest episodes to show; 0 = all. Default: 10 if filtered, else 3."),
    ] = None,
    json: Json = False,
    plain: Plain = False,
) -> None:
    """The summary and the newest episodes, or those that match, are on stdout in full."""
    place = find_place(run, root_of(None))
    episodes = list_episodes(place)
    wanted = Wanted(round, client, env, outcome, split, task)
    chosen = matching(episodes, wanted)
    few = FEW if wanted == Wanted() else SOME
    newest = chosen[-limit:] if limit else chosen if limit == 0 else chosen[-few:]
    rows = summary_rows(episodes) if wanted == Wanted() else []
    if json:
        _print_json(place, rows, newest)
    else:
        _print_text(place, rows, newest, len(chosen), plain=plain or plain_wanted(sys.stdout))


def _print_json(
    place: Place, rows: Sequence[dict[str, Any]], newest: Sequence[StoredEpisode]
) -> None:
    if rows:
        summary = {"event": "summary", "run": str(place.path), "rounds": rows}
        print(json_format.dumps(summary))
    for episode, trajectory in load_texts(newest):
        entry = {"event": "episode", **facts_of(episode, place.run_id), **_turns_json(trajectory)}
        print(json_format.dumps(entry))


def _turns_json(trajectory: Trajectory | None) -> dict[str, Any]:
    if trajectory is None:
        return {"turns": None}
    return {
        "reward": trajectory.reward,
        "adapter": trajectory.policy,
        "error": trajectory.error,
        "turns": [_turn_json(turn) for turn in trajectory.turns],
    }


def _turn_json(turn: Turn) -> dict[str, Any]:
    who = {"role": turn.role, "thread": turn.thread} if turn.role else {}
    return {**who, "observation": turn.observation, "action": turn.action}


def _print_text(
    place: Place,
    rows: Sequence[dict[str, Any]],
    newest: Sequence[StoredEpisode],
    count: int,
    *,
    plain: bool,
) -> None:
    console = console_for(plain=plain)
    if rows:
        console.print(Text(f"episodes of {place.path}\n", style="bold"), soft_wrap=True)
        show_summary(console, rows)
        console.print(Text(LEGEND, style="dim"))
        console.print()
    if not count:
        console.print("no episode matches")
        return
    cut = len(newest) < count
    heading = f"the newest {len(newest)} of {count} episodes" if cut else counted(count, "episode")
    more = "; choose: --round, --client, --outcome, --task" if rows else "; all: --limit 0"
    console.print(Text(heading + (more if cut else ""), style="dim"))
    lacking = False
    for episode, trajectory in load_texts(newest):
        console.print()
        show_episode(console, episode, trajectory)
        lacking = lacking or trajectory is None
    if lacking:
        console.print()
        console.print(Text(NOT_KEPT, style="dim"))
