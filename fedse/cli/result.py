"""What a run achieved, as plain values and as text."""

import json
import sys
from typing import Any

from fedse.cli.display import Mode
from fedse.cli.phrases import counted, megabytes
from fedse.config.rounds import OPEN, out_of
from fedse.config.worlds import world_names
from fedse.results.outcome import Change, RunResult
from fedse.stats.rates import Rate

COLUMNS = {
    "test": "new, global",
    "test-personal": "new, personal",
    "home": "home, global",
    "home-personal": "home, personal",
}


def print_result(result: RunResult, mode: Mode) -> None:
    """The result is on stdout: a table for people, one JSON object for programs."""
    plain = result_json(result)
    if mode != "json":
        print(file=sys.stderr)
    print(json.dumps(plain) if mode == "json" else result_text(plain))
    sys.stdout.flush()


def result_json(result: RunResult) -> dict[str, Any]:
    """Held-out success before the first and after the last committed round, and the paths.

    Only clients measured both times are compared.
    """
    last, means = len(result.rounds), result.mean_of_environments
    return {
        "event": "result",
        "run": str(result.path),
        "rounds": last,
        "of": result.config.run.rounds,
        "clients": len(result.config.clients),
        "seconds": round(sum(one.seconds for one in result.rounds), 1),
        "bytes_up": sum(one.bytes_up for one in result.rounds),
        "bytes_down": sum(one.bytes_down for one in result.rounds),
        "adapter": str(result.adapters[last]) if last else None,
        "environments": {env: _change_json(each) for env, each in result.by_environment.items()},
        "all": _change_json(result.overall) if result.overall else None,
        "since_warm_start": _change_json(warm) if (warm := result.since_warm_start) else None,
        "mean_of_environments": [mean.value for mean in means] if means else [None, None],
        "places": {
            place: {client: _rate_json(rate) for client, rate in by_client.items()}
            for place, by_client in result.places.items()
        },
        **({"best_rounds": best} if (best := _best_json(result)) else {}),
        "alarms": [alarm._asdict() for alarm in result.alarms],
    }


def _best_json(result: RunResult) -> dict[str, Any]:
    best = result.best_rounds.items()
    return {block: {"round": round, **_rate_json(rate)} for block, (round, rate) in best}


def _change_json(change: Change) -> dict[str, Any]:
    low, high = change.interval
    return {
        "before": _rate_json(change.before),
        "after": _rate_json(change.after),
        "change": {"value": change.value, "low": low, "high": high},
    }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"won": rate.successes, "played": rate.n, "rate": rate.value}


def result_text(result: dict[str, Any]) -> str:
    """The result for a person, at most 60 columns but for names and paths."""
    done, planned = result["rounds"], result["of"]
    rounds = f"{out_of(done, planned)} round{'s' * ((done if planned == OPEN else planned) != 1)}"
    clients = counted(result["clients"], "site")
    lines = [f"{rounds}, {clients}, {result['seconds']:.0f} s", ""]
    if result["all"] is None:
        lines += ["success was not measured (eval.episodes = 0, or nobody answered)"]
    else:
        names = world_names(result["environments"])
        rows = {names[env]: change for env, change in result["environments"].items()}
        if len(rows) > 1:
            rows["all"] = result["all"]
        lines += ["success on held-out tasks, first -> last (95 % interval)"]
        if result["since_warm_start"]:
            rows["all, since the warm start"] = result["since_warm_start"]
        lines += _table(rows)
        lines += _places(result["places"])
    moved = f"{megabytes(result['bytes_up'])} up, {megabytes(result['bytes_down'])} down"
    lines += ["", f"exchanged  {moved}, adapters only", f"run        {result['run']}"]
    if result["adapter"]:
        lines += [f"adapter    {result['adapter']}"]
    for block, best in result.get("best_rounds", {}).items():
        games = f"{best['won']} of {best['played']} validation games"
        lines += [f"best       {block}: round {best['round']}, {games}"]
    for alarm in result["alarms"]:
        lines += ["", f"ALARM      {alarm['text']}", f"  next     {alarm['next']}"]
    return "\n".join(lines)


def _places(places: dict[str, dict[str, Any]]) -> list[str]:
    """Per site, the global and the personal adapter side by side, where both were measured."""
    shown = [place for place in COLUMNS if place in places]
    if shown == ["test"]:
        return []
    clients = list(places["test"])
    width = max(len(client) for client in clients)
    titles = "  ".join(f"{COLUMNS[place]:>14}" for place in shown)
    lines = ["", "last: tasks that no site has (new) and the site's own (home)"]
    lines += [f"  {'':<{width}}  {titles}"]
    for client in clients:
        cells = [places[place].get(client) for place in shown]
        row = "  ".join(f"{cell['rate']:>14.2f}" if cell else f"{'-':>14}" for cell in cells)
        lines += [f"  {client:<{width}}  {row}"]
    return lines


def _table(rows: dict[str, dict[str, Any]]) -> list[str]:
    width = max(len(name) for name in rows)
    lines, unclear = [], False
    for name, row in rows.items():
        change = row["change"]
        doubt = change["low"] <= 0 <= change["high"]
        unclear = unclear or doubt
        lines += [
            f"  {name:<{width}}  {row['before']['rate']:.2f} -> {row['after']['rate']:.2f}"
            f"  {change['value']:+.2f}{'*' if doubt else ' '}"
            f" ({change['low']:+.2f} to {change['high']:+.2f})  {row['after']['played']} games"
        ]
    return [*lines, *(["  * the interval includes 0: may be chance"] if unclear else [])]
