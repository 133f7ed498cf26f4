"""`fedse eval RUN`: how well does an adapter do in games that nobody has seen?"""

import json as json_format
from typing import Annotated, Any

from cyclopts import Parameter

from fedse.api.measuring import Evaluation, evaluate
from fedse.cli.display import Json, print_aside
from fedse.cli.resume import RunName
from fedse.config.worlds import world_names
from fedse.events import Fact


def eval_verb(
    run: RunName = "last",
    /,
    *,
    round: Annotated[int | None, Parameter(help="Which adapter; default: the last.")] = None,
    episodes: Annotated[
        int | None, Parameter(help="Games per site; default: as in the run.")
    ] = None,
    seed: Annotated[int, Parameter(help="A different seed gives different games.")] = 0,
    json: Json = False,
) -> None:
    """The adapter's success in fresh games on each client's held-out tasks is on stdout."""
    evaluation = evaluate(run, round=round, episodes=episodes, seed=seed, on_event=_progress)
    rows = _rows(evaluation)
    if json:
        head = {"run": str(evaluation.path), "round": evaluation.round}
        print(json_format.dumps({**head, "success": rows}))
    else:
        print(_text(evaluation, rows))


def _progress(event: str, facts: dict[str, Fact]) -> None:
    if event == "eval.progress":
        played = f"{facts['played']} of {facts['episodes']} games"
        print_aside(f"{facts['client']} has played {played}")


def _rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    named = [("client", name, rate) for name, rate in evaluation.clients.items()]
    named += [("environment", env, rate) for env, rate in evaluation.environments.items()]
    named += [("all", "all", evaluation.overall)]
    rows = [
        {"of": of, "name": name, "won": rate.successes, "played": rate.n, "rate": rate.value}
        | rate.interval._asdict()
        for of, name, rate in named
    ]
    mean = evaluation.mean_of_environments
    rows += [
        {"of": "mean of environments", "name": "mean of environments", "rate": mean.value}
        | mean.interval._asdict()
    ]
    return rows


def _text(evaluation: Evaluation, rows: list[dict[str, Any]]) -> str:
    worlds = world_names(evaluation.environments)
    rows = [{**row, "name": worlds.get(row["name"], row["name"])} for row in rows]
    width = max(len(row["name"]) for row in rows)
    adapter = f"round {evaluation.round} of {evaluation.path.name}"
    lines = [f"success of {adapter} in fresh games, 95 % interval"]
    of = ""
    for row in rows:
        lines += [""] if row["of"] != of and of in ("client", "environment") else []
        of = row["of"]
        count = f"   {row['won']} of {row['played']}" if "won" in row else ""
        span = f"{row['low']:.2f} to {row['high']:.2f}"
        lines += [f"  {row['name']:<{width}}  {row['rate']:.2f}  ({span}){count}"]
    return "\n".join(lines)
