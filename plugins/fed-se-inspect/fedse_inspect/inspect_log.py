"""Episodes as Inspect `.eval` logs, one per round, for `inspect view` and its data frames.

Every round is a task of its own: Inspect treats several logs of one task as retries and hides all
but the last. Nothing in a log names a folder of this machine, and only its owner can read it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, write_eval_log

from fedse._version import __version__
from fedse.adapters.peft_folder import ELSEWHERE
from fedse.errors import StoreError, boundary
from fedse.exports.episodes import Origin
from fedse.stats.rates import Rate
from fedse.types import digest_of

# As many letters as Inspect's own ids have.
ID_LETTERS = 22
FACTS = (
    *("client", "env", "round", "task_id", "seed", "split", "outcome", "reward", "turns"),
    *("adapter", "demonstration", "kept", "drop_reason"),
)
"""What a sample holds about its episode besides the messages."""


def write_inspect_logs(
    rows: Iterable[dict[str, Any]], folder: Path, origin: Origin
) -> Iterator[Path]:
    """One log per round of `rows`, made by `rows_of`, the oldest first; each when written."""
    for round, of_round in groupby(rows, key=lambda row: int(row["round"])):
        log = log_of(list(of_round), round, origin)
        # Inspect reads the parts of such a name: time, task, id.
        when = origin.created.isoformat(timespec="seconds").replace(":", "-")
        out = folder / f"{when}_{log['eval']['task']}_{log['eval']['task_id']}.eval"
        _write(log, out)
        yield out


def log_of(rows: Sequence[dict[str, Any]], round: int, origin: Origin) -> dict[str, Any]:
    """The log of one round in Inspect's schema."""
    task, count = f"{origin.experiment}-round-{round:03d}", len(rows)
    ids = {
        key: digest_of([origin.run_id, task, key])[:ID_LETTERS] for key in ("task_id", "eval_id")
    }
    metrics = _rates(rows)
    score = {
        "name": "success",
        "scorer": "success",
        "scored_samples": count,
        "metrics": {name: {"name": name, "value": rate.value} for name, rate in metrics.items()},
    }
    return {
        "version": 2,
        "status": "success",
        "eval": {
            **ids,
            "run_id": digest_of(origin.run_id)[:ID_LETTERS],
            "created": origin.created.isoformat(timespec="seconds"),
            "task": task,
            "dataset": {"name": origin.experiment, "samples": count},
            "model": f"fedse/{origin.model}",
            "config": {},
            "packages": {"fedse": __version__},
            "metadata": {"run": origin.run_id, "round": round},
            "scorers": [{"name": "success", "metrics": [{"name": name} for name in metrics]}],
        },
        "results": {"total_samples": count, "completed_samples": count, "scores": [score]},
        "samples": [_sample(row, origin.model) for row in rows],
    }


def _rates(rows: Sequence[dict[str, Any]]) -> dict[str, Rate]:
    """Success by purpose of the games, since only held-out ones measure an adapter."""
    parts: dict[str, list[bool]] = {}
    for row in rows:
        played = "explored" if not row["demonstration"] else "demonstrated"
        name = played if row["split"].startswith("train") else "held_out"
        parts.setdefault(name, []).append(row["success"])
    return {name: Rate(sum(won), len(won)) for name, won in parts.items()}


def _sample(row: dict[str, Any], model: str) -> dict[str, Any]:
    messages = [{"id": f"{row['id']}/{i}", **m} for i, m in enumerate(row["messages"])]
    first = next((m["content"] for m in messages if m["role"] == "user"), "")
    last = messages[-1]["content"] if messages else ""
    answer = {"role": "assistant", "content": last, "model": model}
    return {
        # A slash would be a folder inside the log, which is a zip.
        "id": row["id"].removeprefix(f"{row['run_id']}/").replace("/", "-"),
        "uuid": digest_of(row["id"])[:ID_LETTERS],
        "epoch": 1,
        "input": first,
        "target": "success",
        "messages": messages,
        "output": {"model": model, "choices": [{"message": answer, "stop_reason": "stop"}]},
        "scores": {
            "success": {
                "value": "C" if row["success"] else "I",
                "answer": last,
                "explanation": row["outcome"],
            }
        },
        "metadata": {name: row[name] for name in FACTS},
    }


def _write(log: dict[str, Any], out: Path) -> None:
    if out.exists():
        raise StoreError(f"{out} already exists", hint="choose another --out")
    with boundary(StoreError, f"{out} cannot be written", hint=ELSEWHERE):
        out.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        out.touch(mode=0o600)
        write_eval_log(EvalLog.model_validate(log), str(out), format="eval")
        out.chmod(0o600)
