"""Do the experiments of a table: on several processes, each once, from where it was stopped.

A job's result is one small JSON file named after its settings, so an arm that two tables share is
done once, and a table that was interrupted goes on.
"""

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import as_completed
from contextlib import closing
from datetime import datetime
from pathlib import Path

from fedse.committed import Drift
from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.drivers.workers import worker_processes
from fedse.reproduce.tables import Job
from fedse.results.held_out import outcomes
from fedse.store.files import write_durably
from fedse.store.run import Run
from fedse.store.run_folder import create_run, held, open_run
from fedse.types import Record, digest_of

RECORDS = ("home", "test-personal", "home-personal")
"""Played after the last round beside the games nobody has, where the settings ask for it."""


class Found(Record):
    """The result of one experiment; all but the seconds follows from its settings."""

    clients: dict[str, tuple[str, str]]
    """Held-out games before and after, in order: 1 = won."""
    records: dict[str, dict[str, str]] = {}  # noqa: RUF012 (pydantic copies it)
    """Record, as `home` or `test-personal` -> client -> its games after the last round."""
    curve: dict[int, dict[str, tuple[int, int]]]
    """Round -> client -> games won and played by the adapter after it."""
    adapter: str
    """Digest of the final adapter."""
    payload: int
    """Bytes of one adapter, one way."""
    bytes_moved: int
    buffered: dict[str, int]
    drift: list[Drift | None]
    cpu_seconds: float


Tell = Callable[[int, int, Job, Found], None]


def key_of(config: Config) -> str:
    """Equal for experiments that would give the same bits.

    A setting that is added later, with a default that changes nothing, changes no key.
    """
    without_effect = {"run": {"name", "workers"}}
    settings = config.model_dump(mode="json", exclude=without_effect, exclude_defaults=True)
    return digest_of(settings)[:16]


def do_jobs(jobs: Sequence[Job], root: Path, *, workers: int, tell: Tell) -> dict[str, Found]:
    """Every job's result by key; finished ones are read, the others are done now."""
    results = {
        key: read for key in {key_of(job.config) for job in jobs} if (read := _read(root, key))
    }
    pending = {key_of(job.config): job for job in jobs if key_of(job.config) not in results}
    total = len(results) + len(pending)
    with closing(_do_pending(pending, root, workers)) as finished:
        for key, done in finished:
            results[key] = done
            tell(len(results), total, pending[key], done)
    return results


def _do_pending(
    pending: dict[str, Job], root: Path, workers: int
) -> Generator[tuple[str, Found], None, None]:
    if not pending:
        return
    with worker_processes(min(workers, len(pending))) as pool:
        futures = {pool.submit(do_job, job.config, root): key for key, job in pending.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


def do_job(config: Config, root: Path) -> Found:
    """The experiment is finished and its result is on disk."""
    key, started = key_of(config), time.process_time()
    with closing(_open(config, root / "runs" / key)) as run, held(run.path):
        run_local(run)
        result = _collect(run, time.process_time() - started)
    target = root / "found" / f"{key}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_durably(target, result.model_dump_json().encode())
    return result


def _open(config: Config, path: Path) -> Run:
    if (path / "run.json").is_file():
        return open_run(path, clock=time.time)
    now = datetime.now()
    return create_run(path.parent, config, given="", name=path.name, now=now, clock=time.time)


def _collect(run: Run, cpu_seconds: float) -> Found:
    rounds, results = run.config.run.rounds, list(run.results())
    before, after = outcomes(run.path, 0), outcomes(run.path, rounds)
    evals = {round: run.evals(round) for round in range(rounds + 1)}
    others = {record: outcomes(run.path, rounds, record) for record in RECORDS}
    return Found(
        clients={client: (_bits(before[client]), _bits(after[client])) for client in after},
        records={
            record: {client: _bits(games) for client, games in by_client.items()}
            for record, by_client in others.items()
            if any(by_client.values())
        },
        curve={
            round: {c: (stats.eval_succeeded, stats.eval_played) for c, stats in stats_of.items()}
            for round, stats_of in evals.items()
            if stats_of
        },
        adapter=run.adapter(rounds).digest,
        payload=run.spec.nbytes,
        bytes_moved=sum(result.bytes_up + result.bytes_down for result in results),
        buffered={client: stats.buffered for client, stats in results[-1].stats.items()},
        drift=[result.drift for result in results],
        cpu_seconds=round(cpu_seconds, 1),
    )


def _bits(won: Sequence[bool]) -> str:
    return "".join("1" if game else "0" for game in won)


def _read(root: Path, key: str) -> Found | None:
    path = root / "found" / f"{key}.json"
    return Found.model_validate_json(path.read_text()) if path.is_file() else None
