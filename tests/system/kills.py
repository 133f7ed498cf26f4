"""kill -9 at the six points of the threat model, on a real federation with TLS and node keys.

In every round each point is struck once: one site dies while it plays, one while it learns, one
when its answer is on disk and not yet sent; the server's app dies before it merges, before it
commits and after. Which site dies where changes from round to round.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from fedse.committed import RoundResult
from fedse.store.buffer import Buffer
from tests.system.field import SHORT_ROUND, Field, field, maze_clients, undisturbed

Happening = Callable[[Field, int], object]
"""Something that befalls a federation in the round it is given."""
CLIENT_POINTS = {
    "client in rollout": "rollout.progress",
    "client in training": "train.started",
    "client in upload": "upload.started",
}
SERVER_POINTS = {
    "server in aggregation": "aggregate.started",
    "server before commit": "commit.started",
    "server after commit": "round.committed",
}
POINTS = {**CLIENT_POINTS, **SERVER_POINTS}
"""What each point is called, and at which event it is; the others' are in step_kills.py."""
SITES = ("alpha", "beta", "gamma")
ROUND_SECONDS = 240.0
HELD = SITES[0], "train.started"
"""Who waits, and where, until what is to happen in a round happens."""


class Kill(NamedTuple):
    point: str
    round: int
    who: str
    back: float
    """Seconds until whoever was killed, or its successor, was at work again."""
    committed: float
    """Seconds until the next commit."""


class Matrix(NamedTuple):
    """What a federation went through and how it ended; all counts are to be zero but kills."""

    kills: list[Kill]
    digest_equal: bool
    """The final adapter is the one of the local driver, which nobody disturbed."""
    rounds_lost: int
    """Rounds that were said to be committed and are not, or are with another adapter."""
    counted_twice: int
    """Updates that are in a round more than once, or in more than one commit of it."""
    trajectories_lost: int
    """Episodes of the undisturbed run that a site's buffer lacks, or has besides."""
    uncommitted: int
    excluded: int
    """Sites that a round went on without."""
    start: float
    """Seconds from the first command until all sites were at work on the first round."""


def experiment(
    rounds: int,
    sites: Sequence[str] = SITES,
    *,
    deadline: float = 240.0,
    min_clients: int = len(SITES),
) -> str:
    return f"""
[run]
name = "kills"
rounds = {rounds}
[model]
rank = 2
{SHORT_ROUND}
[eval]
episodes = 2
every = 100
[aggregate]
deadline = {deadline}
min_clients = {min_clients}
{maze_clients(sites)}
"""


def kill_matrix(
    path: Path, *, times: int, then: Sequence[Happening] = (), light: bool = False
) -> Matrix:
    """Each point is struck `times` times, once in each round; the last round is left in peace.

    In between, in a round of its own each, `then` happens, while one site waits that has played.
    """
    text, patience = experiment(times + len(then) + 1), ROUND_SECONDS * (times + 1)
    expected, local = undisturbed(path, text, light=light)
    with field(path / "field", text, light=light) as here:
        order_all(here, times)
        reached = [here.hold(*HELD, round) for round in range(times + 1, times + len(then) + 1)]
        for site in SITES:
            here.start_site(site)
        here.start_server()
        for round, (happening, is_held) in enumerate(zip(then, reached, strict=True), times + 1):
            here.wait(patience, until=is_held)
            happening(here, round)
        code = here.wait_for_end(patience)
        assert code == 0, here.last_words()
        assert set(here.end().values()) == {0}
        return account(here, expected, local)


def said(here: Field, event: str, round: int) -> bool:
    return any(e["event"] == event and e.get("round") == round for e in here.events())


def order_all(
    here: Field,
    times: int,
    clients: Mapping[str, str] = CLIENT_POINTS,
    server: Mapping[str, str] = SERVER_POINTS,
) -> None:
    """Each point is struck once in each of the first `times` rounds."""
    for round in range(1, times + 1):
        for place, event in enumerate(clients.values()):
            here.order(SITES[(place + round) % len(SITES)], event, round)
        for event in server.values():
            here.order("server", event, round)


def account(here: Field, expected: list[RoundResult], local: Path) -> Matrix:
    """What is in the folders afterwards, against what the local driver has in its own."""
    events, results = here.events(), here.results()
    told = [(e["round"], e["adapter"]) for e in events if e["event"] == "round.committed"]
    kept = {result.index: result.after for result in results}
    votes = [len(r.voters) - len(set(r.voters)) for r in results]
    return Matrix(
        kills=[timed(here, events, one) for one in here.killed()],
        digest_equal=[r.after for r in results] == [r.after for r in expected],
        rounds_lost=sum(kept.get(round) != adapter for round, adapter in told),
        counted_twice=sum(votes) + len(results) - len(kept) + len(told) - len(set(told)),
        trajectories_lost=sum(
            len(episodes(here.home(site)) ^ episodes(local / "clients" / site)) for site in SITES
        ),
        uncommitted=len(expected) - len(results),
        excluded=sum(len(r.excluded) + len(r.absent) for r in results),
        start=round(first_answer(here) - here.begun, 1),
    )


def first_answer(here: Field) -> float:
    """When each site had begun to work on the first round."""
    return max(min(e["time"] for e in worker_events(here, site)) for site in SITES)


def episodes(home: Path) -> set[str]:
    """What the site learns from, by content."""
    buffer = Buffer(home / "buffer.db")
    try:
        return {lesson.content_digest for lesson in buffer.lessons("kills", 10**6)}
    finally:
        buffer.close()


def timed(
    here: Field,
    events: list[dict[str, Any]],
    kill: dict[str, Any],
    points: Mapping[str, str] = POINTS,
) -> Kill:
    """How long the federation did without the one that was killed."""
    point = next(name for name, event in points.items() if event == kill["event"])
    when, who = float(kill["time"]), str(kill["who"])
    rounds = [e for e in events if e["event"] == "round.started"]
    own = rounds if who == "server" else worker_events(here, who)
    later = [float(e["time"]) for e in own if e["time"] > when]
    # The event at which the server was killed is no later one, whatever its time is rounded to.
    told = [float(e["time"]) for e in events if e["event"] == "round.committed"]
    commits = [time for time in told if time > when + 0.01]
    back, committed = min(later, default=when + 1e9), min(commits, default=when + 1e9)
    return Kill(point, int(kill["round"]), who, round(back - when, 1), round(committed - when, 1))


def worker_events(here: Field, site: str) -> list[dict[str, Any]]:
    """What a site's workers noted; each line begins with the local time, to the millisecond."""
    found = []
    for line in (here.home(site) / "worker.log").read_text().splitlines():
        stamp, _, rest = line.partition(" INFO {")
        if rest:
            at = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").timestamp()
            found.append({"time": at})
    return found


def added(matrices: Sequence[Matrix]) -> Matrix:
    """What several federations went through, as one."""
    counts = ("rounds_lost", "counted_twice", "trajectories_lost", "uncommitted", "excluded")
    return Matrix(
        kills=[kill for matrix in matrices for kill in matrix.kills],
        digest_equal=all(matrix.digest_equal for matrix in matrices),
        start=max(matrix.start for matrix in matrices),
        **{name: sum(getattr(matrix, name) for matrix in matrices) for name in counts},
    )


def summary(matrix: Matrix) -> dict[str, Any]:
    """What is to be told of a matrix."""
    counts = {k: v for k, v in matrix._asdict().items() if k != "kills"}
    return {"points": costs(matrix.kills), **counts}


def costs(kills: Sequence[Kill], points: Mapping[str, str] = POINTS) -> dict[str, dict[str, Any]]:
    """Per point: how many kills, and the seconds until back, median and worst."""
    table = {}
    for point in points:
        back = [kill.back for kill in kills if kill.point == point]
        commit = [kill.committed for kill in kills if kill.point == point]
        table[point] = {
            "kills": len(back),
            "back_median": median(back) if back else None,
            "back_worst": max(back, default=None),
            "committed_median": median(commit) if commit else None,
            "committed_worst": max(commit, default=None),
        }
    return table
