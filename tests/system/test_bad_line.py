"""Over lines that are slow, cut and dead for a while, each site counts once in every round."""

import json
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.adapters.base import spec_of
from fedse.committed import RoundResult
from fedse.config.file import parse_config
from fedse.ledger.verifying import verify_ledger
from tests.system.bad_line import ANSWERED, CUT, LARGE, SWALLOWED, BadLine, Upload, bad_line
from tests.system.field import SHORT_ROUND, Field, field, maze_clients, undisturbed

SITES = SLOW, CUT_OFF, PARTED = "alpha", "beta", "gamma"
ROUNDS = 2
LATENCY, PARTED_SECONDS, ALONE_SECONDS, SECONDS = 2.0, 15.0, 6.0, 360.0
# Rank 16 makes an adapter of 0.5 MB, which is well over all else that a site sends.
EXPERIMENT = f"""
[run]
name = "bad-line"
rounds = {ROUNDS}
[model]
rank = 16
{SHORT_ROUND}
[eval]
episodes = 0
[aggregate]
deadline = 240.0
min_clients = {len(SITES)}
{maze_clients(SITES)}
"""
ADAPTER_BYTES = spec_of(parse_config(EXPERIMENT, "experiment")).nbytes


@pytest.mark.federated
@pytest.mark.long
@pytest.mark.timeout(420)
def test_each_site_counts_once_however_bad_its_line(tmp_path: Path):
    expected, _ = undisturbed(tmp_path, EXPERIMENT)
    with field(tmp_path / "field", EXPERIMENT) as here, ExitStack() as stack:
        lines = {
            site: stack.enter_context(
                bad_line(
                    here.home(site),
                    adapter_bytes=ADAPTER_BYTES,
                    latency=LATENCY if site == SLOW else 0.0,
                )
            )
            for site in SITES
        }
        lines[CUT_OFF].cut()
        lines[PARTED].swallow(parted=ALONE_SECONDS)
        began = time.monotonic()
        for site in SITES:
            here.start_site(site)
        here.start_server()
        try:
            disturb(here, lines)
            code = here.wait_for_end(SECONDS - (time.monotonic() - began))
        finally:
            tell(here, lines, time.monotonic() - began)
            here.end()  # from here on nobody writes what is read
        assert code == 0, here.last_words()
        every_fault_happened(lines)
        every_site_counted_once(here, expected)


def disturb(here: Field, lines: dict[str, BadLine]) -> None:
    """The orders for round 2 were given while the site plays: its next upload is of that round."""
    orders = {
        CUT_OFF: lines[CUT_OFF].swallow,
        PARTED: lambda: lines[PARTED].part(PARTED_SECONDS),
    }

    def all_given() -> bool:
        for site in [s for s in orders if has_begun(here, s, "rollout.started", 2)]:
            orders.pop(site)()
        return not orders

    here.wait(250, until=all_given)


def has_begun(here: Field, site: str, event: str, round: int) -> bool:
    return any(e["event"] == event and e["round"] == round for e in said(here, site))


def said(here: Field, site: str) -> list[dict[str, Any]]:
    """What the site's worker noted."""
    log = here.home(site) / "worker.log"
    if not log.exists():
        return []
    noted = [line.partition(" INFO ")[2] for line in log.read_text().splitlines()]
    return [json.loads(line) for line in noted if line.startswith("{") and line.endswith("}")]


def every_fault_happened(lines: dict[str, BadLine]) -> None:
    """By the lines' own record: what was cut, lost and refused, and that it was sent again."""
    slow = [u.ended - u.began for u in lines[SLOW].uploads if u.fate == ANSWERED]
    # The TLS tickets of a new connection, a moment earlier, are taken for the answer.
    assert min(slow) > 0.9 * LATENCY
    cut, again, swallowed, twice, *_ = lines[CUT_OFF].uploads
    assert cut.fate == CUT
    assert LARGE < cut.bytes < ADAPTER_BYTES - LARGE, "in the midst of the upload"
    assert again.fate == ANSWERED
    was_delivered_twice(swallowed, twice)
    was_delivered_twice(*lines[PARTED].uploads[:2])
    alone, outage = lines[PARTED].outages
    assert alone.refused
    assert outage.refused > 1
    later = [u for u in lines[PARTED].uploads if u.began > outage.ends]
    assert ANSWERED in [u.fate for u in later]


def was_delivered_twice(swallowed: Upload, again: Upload) -> None:
    assert (swallowed.fate, again.fate) == (SWALLOWED, ANSWERED)
    assert min(swallowed.bytes, again.bytes) > ADAPTER_BYTES - LARGE, "whole"
    assert abs(swallowed.bytes - again.bytes) < LARGE, "the same"


def every_site_counted_once(here: Field, expected: list[RoundResult]) -> None:
    results = here.results()
    assert [result.index for result in results] == list(range(1, ROUNDS + 1))
    for result in results:
        assert sorted(result.voters) == sorted(SITES)
        assert not result.excluded
        assert not result.absent
    assert [result.after for result in results] == [result.after for result in expected]
    assert len({result.after for result in results}) == ROUNDS, "every round changed the adapter"
    committed = [e["round"] for e in here.events() if e["event"] == "round.committed"]
    assert committed == list(range(1, ROUNDS + 1))
    told = verify_ledger(here.federation.run / "ledger.jsonl")
    assert told.finding is None
    rounds = [entry.facts for entry in told.entries if entry.kind == "round"]
    assert [facts["round"] for facts in rounds] == list(range(1, ROUNDS + 1))
    assert all(Counter(facts["voters"]) == Counter(SITES) for facts in rounds)
    for site in SITES:
        each_answer_was_worked_out_once(here, site)
    late = [e for e in here.events() if e["event"] == "answer.late" and e["bytes"]]
    assert all(e["again"] for e in late), "what came late was the same answer"


def each_answer_was_worked_out_once(here: Field, site: str) -> None:
    told = verify_ledger(here.home(site) / "ledger.jsonl")
    assert told.finding is None
    assert told.compared
    answered = [entry.facts["round"] for entry in told.entries if entry.kind == "answered"]
    assert answered == list(range(1, ROUNDS + 1))
    sent = {entry.facts["round"]: entry.facts["sent"] for entry in told.entries[1:]}
    assert all(sent[e.facts["round"]] == e.facts["sent"] for e in told.entries[1:])


def tell(here: Field, lines: dict[str, BadLine], seconds: float) -> None:
    """For whoever runs it with -s: what the lines did, and what it cost."""
    print(f"\n{seconds:.0f} s")
    for site, line in lines.items():
        print(site, line.connections, "connections", line.outages)
        for upload in line.uploads:
            print("  ", upload)
    for event in here.events():
        if event["event"] in ("round.started", "round.committed", "answer.late"):
            print(event)
