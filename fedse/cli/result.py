"""What a run achieved, as plain values and as text."""

from typing import Any

from fedse.cli.phrases import counted, megabytes
from fedse.stats.rates import Rate, by_env, change, macro, micro, rates
from fedse.store.run import Run


def result_of(run: Run) -> dict[str, Any]:
    """Held-out success before the first and after the last committed round, and where things lie.

    Only clients measured both times are compared.
    """
    last = run.committed or 0
    results = list(run.results())
    before, after = rates(run.evals(0)), rates(run.evals(last))
    both = [client for client in before if client in after]
    envs_before = by_env({client: before[client] for client in both}, run.config)
    envs_after = by_env({client: after[client] for client in both}, run.config)
    return {
        "event": "result",
        "run": str(run.path),
        "rounds": last,
        "of": run.config.run.rounds,
        "clients": len(run.config.clients),
        "seconds": round(sum(result.seconds for result in results), 1),
        "bytes_up": sum(result.bytes_up for result in results),
        "bytes_down": sum(result.bytes_down for result in results),
        "adapter": str(run.path / "adapters" / f"round-{last:03d}") if last else None,
        "environments": {env: _compared(envs_before[env], envs_after[env]) for env in envs_before},
        "all": _compared(micro(list(envs_before.values())), micro(list(envs_after.values()))),
        "mean_of_environments": [
            macro(list(envs.values())).value if envs else None for envs in (envs_before, envs_after)
        ],
    }


def _compared(before: Rate, after: Rate) -> dict[str, Any] | None:
    if not before.n or not after.n:
        return None
    low, high = change(before, after)
    return {
        "before": {"won": before.successes, "played": before.n, "rate": before.value},
        "after": {"won": after.successes, "played": after.n, "rate": after.value},
        "change": {"value": after.value - before.value, "low": low, "high": high},
    }


def result_text(result: dict[str, Any]) -> str:
    """The result for a person, at most 60 columns but for names and paths."""
    rounds = f"{result['rounds']} of {counted(result['of'], 'round')}"
    clients = counted(result["clients"], "client")
    lines = [f"{rounds}, {clients}, {result['seconds']:.0f} s", ""]
    if result["all"] is None:
        lines += ["success was not measured (eval.episodes = 0, or nobody answered)"]
    else:
        rows = dict(result["environments"])
        if len(rows) > 1:
            rows["all"] = result["all"]
        lines += ["success on held-out tasks, first -> last (95 % interval)"]
        lines += _table(rows)
    moved = f"{megabytes(result['bytes_up'])} up, {megabytes(result['bytes_down'])} down"
    lines += ["", f"exchanged  {moved}, adapters only", f"run        {result['run']}"]
    if result["adapter"]:
        lines += [f"adapter    {result['adapter']}"]
    return "\n".join(lines)


def _table(rows: dict[str, dict[str, Any]]) -> list[str]:
    width = max(len(name) for name in rows)
    lines, unclear = [], False
    for name, found in rows.items():
        moved = found["change"]
        doubt = moved["low"] <= 0 <= moved["high"]
        unclear = unclear or doubt
        lines += [
            f"  {name:<{width}}  {found['before']['rate']:.2f} -> {found['after']['rate']:.2f}"
            f"  {moved['value']:+.2f}{'*' if doubt else ' '}"
            f" ({moved['low']:+.2f} to {moved['high']:+.2f})  {found['after']['played']} games"
        ]
    return [*lines, *(["  * the interval includes 0: may be chance"] if unclear else [])]
