"""What `research/run_smollm2.py` found, as a section of docs/results.md with its picture."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedse.stats.rates import Rate, change, micro
from research.measure_transfer import Matrix, add, markdown
from research.vega import BLUE, GREY, SCHEMA, VERMILLION

FOLDER = Path(__file__).parents[1] / "docs" / "results"
FOUND = FOLDER / "smollm2.json"
ABROAD = FOLDER / "smollm2-transfer.json"
FEDERATED = {
    "one server for all sites": FOLDER / "smollm2-shared.json",
    "a server for each site": FOLDER / "smollm2-each.json",
}
METHODS = ("fed-se", "local-evolve")

Curve = dict[int, dict[str, Rate]]
"""Round -> environment -> held-out games, all seeds together."""


def curve_of(runs: Iterable[Mapping[str, Any]]) -> Curve:
    """Games of several runs together; the lone clients of local-evolve make one curve."""
    curve: Curve = {}
    for run in runs:
        for round, by_client in run["curve"].items():
            at = curve.setdefault(int(round), {})
            for client, (won, played) in by_client.items():
                before = at.get(client, Rate(0, 0))
                at[client] = Rate(before.successes + won, before.n + played)
    return curve


def runs_of(found: Mapping[str, Any], method: str) -> list[Mapping[str, Any]]:
    """The runs of a method; of a seed that `fedse run` was not used for, the federation's."""
    runs = [run for name, run in found["runs"].items() if name.startswith(method)]
    if method == "fed-se":
        by_seed = {one["seed"]: one for one in reversed(federations().values())}
        runs += [
            _as_run(by_seed[seed]) for seed in by_seed if f"fed-se-{seed}" not in found["runs"]
        ]
    return runs


def federations() -> dict[str, dict[str, Any]]:
    """What stands between sites and engine -> what that real federation brought."""
    there = {name: file for name, file in FEDERATED.items() if file.is_file()}
    return {name: json.loads(file.read_text()) for name, file in there.items()}


def _as_run(federation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "curve": federation["curve"],
        "steps": {round: one["steps"] for round, one in federation["rounds"].items()},
        "tokens": federation["tokens"],
        "cpu_seconds": {"all": federation["cpu_seconds"]},
    }


def curves(found: Mapping[str, Any]) -> dict[str, Curve]:
    return {method: curve_of(runs_of(found, method)) for method in METHODS}


def seeds_of(found: Mapping[str, Any]) -> list[int]:
    return sorted({int(name.rpartition("-")[2]) for name in found["runs"]})


def table(by_method: Mapping[str, Curve], warm: int) -> str:
    rows = ["| round | " + " | ".join(by_method) + " |", "|---|" + "---|" * len(by_method)]
    for round in sorted(next(iter(by_method.values()))):
        label = {0: "0 (untrained)", warm: f"{warm} (warm start)"}.get(round, str(round))
        cells = [_cell(micro(list(curve[round].values()))) for curve in by_method.values()]
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def by_environment(by_method: Mapping[str, Curve], warm: int) -> str:
    rows = ["| environment | method | warm start | last round | change |", "|---|---|---|---|---|"]
    for env in sorted(next(iter(by_method.values()))[0]):
        for method, curve in by_method.items():
            rows.append(f"| {env} | {method} | {_change(curve[warm][env], curve[max(curve)][env])}")
    for method, curve in by_method.items():
        before, after = (micro(list(curve[round].values())) for round in (warm, max(curve)))
        rows.append(f"| all | {method} | {_change(before, after)}")
    return "\n".join(rows)


def _change(before: Rate, after: Rate) -> str:
    between = change(before, after)
    points = f"{100 * (after.value - before.value):+.1f}"
    span = f"({100 * between.low:+.1f} to {100 * between.high:+.1f})"
    return f"{_cell(before)} | {_cell(after)} | {points} {span} |"


def _cell(rate: Rate) -> str:
    return f"{rate.value:.2f} ({rate.interval.low:.2f} to {rate.interval.high:.2f})"


def costs(found: Mapping[str, Any]) -> str:
    rows = [
        "| method | tokens sampled | tokens read | optimiser steps of a client | CPU-hours |",
        "|---|---|---|---|---|",
    ]
    for method in METHODS:
        runs = runs_of(found, method)
        sampled, read = (sum(run["tokens"][key] for run in runs) for key in ("sampled", "read"))
        steps = {client: 0 for run in runs for by in run["steps"].values() for client in by}
        for run in runs:
            for by_client in run["steps"].values():
                for client, taken in by_client.items():
                    steps[client] += taken
        each = sorted(total // len(seeds_of(found)) for total in steps.values())
        hours = sum(sum(run["cpu_seconds"].values()) for run in runs) / 3600
        spent = f"{each[0]} to {each[-1]} | {hours:.1f}"
        rows.append(f"| {method} | {sampled:,} | {read:,} | {spent} |")
    return "\n".join(rows)


def federated() -> str:
    rows = [
        "| sites behind | seed | warm start | last round | votes | minutes | CPU-hours |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in federations().items():
        curve, warm = curve_of([found]), found["warm"]
        ends = [_cell(micro(list(curve[round].values()))) for round in (warm, max(curve))]
        votes = sum(len(one["voters"]) for one in found["rounds"].values())
        spent = f"{found['seconds'] / 60:.0f} | {found['cpu_seconds'] / 3600:.1f}"
        at = f"{name} | {found['seed']}"
        rows.append(f"| {at} | {ends[0]} | {ends[1]} | {votes} | {spent} |")
    return "\n".join(rows)


def at_home_and_abroad(by_method: Mapping[str, Curve]) -> str:
    """The common agent and each lone one, in every world, after the last round; if measured."""
    if not ABROAD.is_file():
        return ""
    common, lone = (curve[max(curve)] for curve in by_method.values())
    found: Matrix = {"everybody (fed-se)": {env: [*common[env]] for env in common}}
    found |= {owner: {owner: [*lone[owner]]} for owner in lone}
    for abroad in json.loads(ABROAD.read_text()).values():
        add(found, abroad)
    told = "Every agent in every world after the last round (`research/transfer_smollm2.py`):"
    return f"\n{told}\n\n{markdown(found)}\n"


def section() -> str:
    """Markdown, as it stands in docs/results.md."""
    found = json.loads(FOUND.read_text())
    warm, by_method = found["config"]["warmstart"]["rounds"], curves(found)
    seeds = " ".join(map(str, seeds_of(found)))
    reading = (FOLDER / "smollm2-reading.txt").read_text()
    return f"""## A language model of 135 million parameters

`python research/run_smollm2.py --python PYTHON_WITH_VLLM --seeds {seeds} --out runs
--result docs/results/smollm2.json`: SmolLM2-135M-Instruct through a real vLLM on two CPU cores
(`configs/smollm2.toml`), three environments, one client each, Wilson 95 % intervals; changes with
Newcombe's interval for independent proportions.

![Success after each round](results/smollm2.svg)

{reading}
{table(by_method, warm)}

{by_environment(by_method, warm)}
{at_home_and_abroad(by_method)}
{costs(found)}

The same experiment as a real federation (`research/federate_real.py`): a SuperLink, three
SuperNodes, one process and one folder per site.

{federated()}
"""


def points(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for method, curve in curves(found).items():
        for round, rates in curve.items():
            for env, rate in {**rates, "all": micro(list(rates.values()))}.items():
                low, high = rate.interval
                point = {"round": round, "success": rate.value, "low": low, "high": high}
                yield {**point, "method": method, "environment": env}


def figure() -> dict[str, Any]:
    """A panel per environment and one for all: a line per method with its band."""
    found = json.loads(FOUND.read_text())
    x = {"field": "round", "type": "quantitative", "axis": {"tickMinStep": 1}}
    scale = {"domain": list(METHODS), "range": [BLUE, VERMILLION]}
    legend = {"orient": "bottom", "title": None, "symbolOpacity": 1}
    color = {"field": "method", "type": "nominal", "scale": scale, "legend": legend}
    from_0_to_1 = {"type": "quantitative", "scale": {"domain": [0, 1]}, "title": "success"}
    band = {"x": x, "y": {"field": "low", **from_0_to_1}, "y2": {"field": "high"}, "color": color}
    line = {"x": x, "y": {"field": "success", **from_0_to_1}, "color": color}
    start = {"x": {"datum": found["config"]["warmstart"]["rounds"], "type": "quantitative"}}
    layers = [
        {"mark": {"type": "area", "opacity": 0.15}, "encoding": band},
        {"mark": {"type": "line", "point": True}, "encoding": line},
        {"mark": {"type": "rule", "strokeDash": [4, 4], "color": GREY}, "encoding": start},
    ]
    return {
        "$schema": SCHEMA,
        "data": {"values": list(points(found))},
        "facet": {"field": "environment", "type": "nominal", "title": None},
        "columns": 4,
        "spec": {"width": 170, "height": 150, "layer": layers},
    }
