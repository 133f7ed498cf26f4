"""One hostile reply of five, payload by payload: Fed-SE, and stock Flower FedAvg beside it.

python research/hostile_table.py docs/results/hostile.json

Ours is the whole server: Flower messages, the round loop, the store; one payload per round. Stock
is `flwr.serverapp.strategy.FedAvg.aggregate_train` on messages with the same attack in the dialect
of its own apps, once with the hostile reply first and once with it last.
"""

import argparse
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

# Before the first import of Flower, which reads them then.
os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    FLWR_DISABLE_UPDATE_CHECK="1",
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
    RAY_USAGE_STATS_ENABLED="0",
)
sys.path.insert(0, str(Path(__file__).parents[1]))

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from tests.hostile import (
    AGGREGATES,
    NAMES,
    OFFENDER,
    PAYLOADS,
    START,
    Change,
    Fate,
    fates,
    honest,
    stock_reply,
)

PLACES = ("first", "last")


def stock_fate(spoil: Change, place: str) -> Fate:
    """What stock FedAvg makes of a round with this payload; `no effect` = as if it were sound."""
    others = [stock_reply(honest(START, name, 1)) for name in NAMES if name != OFFENDER]
    sound = stock_reply(honest(START, OFFENDER, 1))
    spoiled = stock_reply(honest(START, OFFENDER, 1))
    hostile = spoil(spoiled) or spoiled
    try:
        merged = bits(averaged(others, hostile, place))
    except Exception as error:
        return Fate("dies", f"{type(error).__name__}: {error}"[:120])
    if merged == bits(averaged(others, None, place)):
        return Fate("excluded", "")
    return Fate("no effect" if merged == bits(averaged(others, sound, place)) else "poisoned", "")


def averaged(others: Sequence[RecordDict], hostile: object, place: str) -> ArrayRecord:
    replies = [*others] if hostile is None else [*others, hostile]
    if hostile is not None and place == "first":
        replies = [hostile, *others]
    messages = []
    for node, reply in enumerate(replies):
        asked = Message(RecordDict(), dst_node_id=node + 1, message_type="train")
        asked.metadata.__dict__["_message_id"] = str(node)
        messages.append(Message(reply, reply_to=asked))
    arrays, _ = FedAvg().aggregate_train(1, messages)
    assert arrays is not None
    return arrays


def bits(arrays: ArrayRecord) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    found = {name: array.numpy() for name, array in arrays.items()}
    return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in found.items()}


def table() -> dict[str, object]:
    ours: dict[str, dict[str, Fate]] = {}
    for name, aggregate in AGGREGATES.items():
        with tempfile.TemporaryDirectory() as folder:
            ours[name] = fates(aggregate, Path(folder))
    rows = []
    for name, payload in PAYLOADS.items():
        seen = {aggregate: fate[name] for aggregate, fate in ours.items()}
        row: dict[str, object] = {"payload": name, "family": payload.family}
        row["fedse"] = {aggregate: fate.outcome for aggregate, fate in seen.items()}
        row["reason"] = next(iter(seen.values())).reason
        for place in PLACES if payload.stock else ():
            assert payload.stock is not None
            fate = stock_fate(payload.stock, place)
            row[f"flower, {place}"] = fate.outcome
            if fate.reason:
                row[f"flower, {place}, why"] = fate.reason
        rows.append(row)
    return {"flwr": version("flwr"), "clients": len(NAMES), "hostile": 1, "rows": rows}


def summary(rows: Sequence[dict[str, object]]) -> str:
    """The table by family, as Markdown."""
    lines = [
        "| attack on | payloads | Fed-SE: excluded, of rounds | FedAvg has it too |"
        " dies, first / last | poisoned | as if sound | excluded |",
        "|---|---|---|---|---|---|---|---|",
    ]
    families = list(dict.fromkeys(str(row["family"]) for row in rows))
    for family in [*families, "all"]:
        here = [row for row in rows if family in (row["family"], "all")]
        rounds = [fate for row in here for fate in dict(row["fedse"]).values()]  # type: ignore[call-overload]
        told = {p: Counter(row.get(f"flower, {p}") for row in here) for p in PLACES}
        cells = [
            " / ".join(str(told[p][outcome]) for p in PLACES)
            for outcome in ("dies", "poisoned", "no effect", "excluded")
        ]
        both = sum("flower, first" in row for row in here)
        good = f"{rounds.count('excluded')} of {len(rounds)}"
        lines.append(f"| {family} | {len(here)} | {good} | {both} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    for name in ("_run_id", "_node_id", "_task_id"):
        # Flower makes messages only inside one of its tasks.
        setattr(TaskIdentity, name, 1)
    found = table()
    out.write_text(json.dumps(found, indent=1) + "\n")
    rows = found["rows"]
    assert isinstance(rows, list)
    print(summary(rows))


if __name__ == "__main__":
    main()
