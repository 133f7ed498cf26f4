"""Runs that nobody had to wait for: committed round by round with made-up but plausible counts."""

from datetime import datetime
from math import tanh
from pathlib import Path

from fedse.adapters.base import initial_adapter
from fedse.committed import Drift, Exclusion, RoundResult
from fedse.config.schema import ClientSection, Config, RunSection, SelectSection
from fedse.report.facts import RunFacts, read_facts
from fedse.store.run_folder import create_run
from fedse.types import ClientStats

NOW = datetime(2026, 11, 15, 12, 4, 11)
PLAYED, HELD_OUT = 32, 50

WHY = "expected 4 bytes, got <b>5</b>"


def made_up(
    root: Path,
    *,
    rounds: int,
    clients: dict[str, str],
    name: str = "made-up",
    select: str = "success",
    collapsing: str = "",
) -> RunFacts:
    """A finished run of `rounds` rounds; `clients` maps names to environments."""
    config = Config(
        run=RunSection(rounds=rounds),
        select=SelectSection(type=select),
        clients=tuple(ClientSection(name=client, env=env) for client, env in clients.items()),
    )
    run = create_run(root, config, given="", name=name, now=NOW, clock=lambda: 1.0)
    adapter = initial_adapter(run.spec, seed=0)
    run.begin(adapter)
    run.emit("run.started", rounds=rounds, committed=0, clients=len(clients))
    for index in range(rounds + 1):
        for place, client in enumerate(clients):
            won = int(HELD_OUT * (0.2 + 0.5 * tanh(index / (10 + place))))
            run.record_eval(
                index, client, ClientStats(eval_played=HELD_OUT, eval_succeeded=won, eval_seconds=3)
            )
        if index:
            run.commit(_round(index, list(clients), adapter.digest, run.spec.nbytes, collapsing))
            run.emit("round.committed", round=index)
    run.emit("run.finished", rounds=rounds, adapter=adapter.digest)
    run.close()
    return read_facts(run.path, clock=lambda: 1.0)


def _round(
    index: int, clients: list[str], digest: str, nbytes: int, collapsing: str
) -> RoundResult:
    """The last client is excluded in every fifth round; all others vote."""
    out = clients[-1:] if index % 5 == 0 else []
    voters = [client for client in clients if client not in out]
    places = {client: place for place, client in enumerate(voters)}
    return RoundResult(
        index=index,
        before=digest,
        after=digest,
        voters=tuple(voters),
        excluded=tuple(Exclusion(client=c, kind="rejected", reason=WHY) for c in out),
        stats={c: _stats(index, clients.index(c), c == collapsing) for c in voters},
        bytes_down=nbytes * len(clients),
        bytes_up=nbytes * len(voters),
        seconds=12.3456789,
        drift=Drift(
            length={c: 1.0 + 0.1 * p + 1 / index for c, p in places.items()},
            cosine={c: 0.9 - 0.05 * p - 0.003 * index for c, p in places.items()},
            merge_error=0.5 / index,
        ),
    )


def _stats(index: int, place: int, collapsing: bool) -> ClientStats:
    won = min(28, 6 + place + index // 4)
    return ClientStats(
        played=PLAYED,
        succeeded=won,
        broken=place % 2,
        truncated=2,
        added=max(1, won - index // 5),
        buffered=60 + index * (5 + place),
        loss=1.0 / (index + place + 1),
        steps=30,
        entropy=3.0 / index if collapsing else 2.5 + 0.1 * place - 0.01 * index,
        distinct=1.0 - 0.015 * index,
        rollout_seconds=4.123456,
        train_seconds=6.54321,
    )
