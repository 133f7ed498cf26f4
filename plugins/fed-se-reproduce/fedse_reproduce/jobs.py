"""Do the experiments of a table: on several processes, each once, from where it was stopped.

A job's result is one small JSON file named after its settings, so an arm that two tables share is
done once, and a table that was interrupted goes on.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from pydantic import Field, ValidationError

from fedse.committed import Drift, GateRecord, RoundResult
from fedse.config.schema import Config
from fedse.drivers.run import run_local
from fedse.drivers.workers import worker_processes
from fedse.errors import FedSEError
from fedse.results.held_out import HeldOutGame, evaluations, games
from fedse.site.open import open_site
from fedse.site.remembered import open_remembering
from fedse.store.files import write_durably
from fedse.store.run import Run
from fedse.store.run_folder import create_run, held, open_run
from fedse.types import Record, digest_of
from fedse_reproduce.attackers import open_attacked
from fedse_reproduce.tables import Job

RECORDS = ("test", "home", "test-personal", "home-personal")
"""What is played in evaluations, where the settings ask for it."""


class Found(Record):
    """The result of one experiment; all but the seconds follows from its settings."""

    games: dict[str, dict[int, dict[str, str]]]
    """Record, as `home` or `test-personal` -> round -> client -> its games after that round.

    In the order they were played: 1 = won.
    """
    tasks: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    """Record -> client -> digest of its games in the last evaluation: which task and seed each."""
    curve: dict[int, dict[str, tuple[int, int]]]
    """Round -> client -> games won and played by the adapter after it."""
    adapter: str
    """Digest of the final adapter."""
    payload: int
    """Bytes of one adapter, one way."""
    bytes_moved: int
    buffered: dict[str, int]
    drift: list[Drift | None]
    gates: list[GateRecord | None]
    suspected: list[tuple[str, ...]]
    """Of each round: whose votes the gate left out."""
    cpu_seconds: float


Tell = Callable[[int, int, Job, Found], None]


def key_of(job: Job) -> str:
    """Equal for experiments that would give the same bits.

    A setting that is added later, with a default that changes nothing, changes no key.
    """
    without_effect = {"run": {"name", "workers"}}
    settings = job.config.model_dump(mode="json", exclude=without_effect, exclude_defaults=True)
    return digest_of([settings, *job.attack] if job.attack else settings)[:16]


def do_jobs(jobs: Sequence[Job], root: Path, *, workers: int, tell: Tell) -> dict[str, Found]:
    """Every job's result by key; finished ones are read, the others are done now."""
    results = {key: read for key in {key_of(job) for job in jobs} if (read := _read(root, key))}
    pending = {key_of(job): job for job in jobs if key_of(job) not in results}
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
        futures = {pool.submit(do_job, job, root): key for key, job in pending.items()}
        for future in as_completed(futures):
            key = futures[future]
            with _named(pending[key]):
                result = future.result()
            yield key, result


@contextmanager
def _named(job: Job) -> Iterator[None]:
    """An error inside says whose it is."""
    try:
        yield
    except FedSEError as error:
        whose = f"{job.arm}, seed {job.seed}"
        raise type(error)(f"{whose}: {error}", hint=error.hint) from error


def do_job(job: Job, root: Path) -> Found:
    """The experiment is finished and its result is on disk."""
    key, started = key_of(job), time.process_time()
    with closing(_open(job.config, root / "runs" / key)) as run, held(run.path):
        if job.attack:
            run_local(run, open_site=partial(open_attacked, open_site, job.attack))
        else:
            run_local(run, open_site=partial(open_remembering, root / "remembered"))
        result = collect(run, time.process_time() - started)
    target = root / "found" / f"{key}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_durably(target, result.model_dump_json().encode())
    return result


def _open(config: Config, path: Path) -> Run:
    if (path / "run.json").is_file():
        return open_run(path, clock=time.time)
    now = datetime.now()
    return create_run(path.parent, config, given="", name=path.name, now=now, clock=time.time)


def collect(run: Run, cpu_seconds: float) -> Found:
    """What a finished run found; of a client that joined late, from then on."""
    rounds, results = run.config.run.last, list(run.results())
    evals = {round: run.evals(round) for round in range(rounds + 1)}
    played = {record: found for record in RECORDS if (found := _games(run.path, record))}
    return Found(
        games={
            record: {
                round: {client: _bits(own) for client, own in by_client.items()}
                for round, by_client in by_round.items()
            }
            for record, by_round in played.items()
        },
        tasks={
            record: {client: _digest(own) for client, own in by_round[max(by_round)].items()}
            for record, by_round in played.items()
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
        gates=[result.gate for result in results],
        suspected=[_suspected(result) for result in results],
        cpu_seconds=round(cpu_seconds, 1),
    )


def _games(path: Path, record: str) -> dict[int, dict[str, list[HeldOutGame]]]:
    """Round -> client -> games on this record, where there are any."""
    found: dict[int, dict[str, list[HeldOutGame]]] = {}
    for round in evaluations(path):
        played = {c: own for c, own in games(path, round, record).items() if own}
        found |= {round: played} if played else {}
    return found


def _suspected(result: RoundResult) -> tuple[str, ...]:
    return tuple(one.client for one in result.excluded if one.kind == "suspected")


def _bits(played: Sequence[HeldOutGame]) -> str:
    return "".join("1" if game.success else "0" for game in played)


def _digest(played: Sequence[HeldOutGame]) -> str:
    return digest_of([game[:2] for game in played])[:16]


def _read(root: Path, key: str) -> Found | None:
    path = root / "found" / f"{key}.json"
    if not path.is_file():
        return None
    with suppress(ValidationError):  # written by another version: it is done again
        return Found.model_validate_json(path.read_text())
    return None
