"""kill -9 around a private step, on a real federation with TLS, node keys and a secure sum.

In every round each point is struck once: one site dies while it plays, one when it has its
gradients and no answer yet, one when its answer is on disk, one when the numbers under their masks
are ready to be sent; the server's app dies when it has heard of all of these numbers and stored no
sum of them, when the sum can be read and no step was taken, before it commits and after. The noise
of a run is its own, so there is no second run to compare with: the adapters are computed again from
what the sites have in their outboxes.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomlkit

from fedse.aggregate.factors import learned_part, travelling_spec, with_resting_factor
from fedse.config.combinable import USUAL_NOISE
from fedse.drivers.stages import introduce
from fedse.ledger.verifying import ledgers_in, verify_ledger
from fedse.protocol import SUM_STAGES
from fedse.secure_sum.messages import masked_from_bytes
from fedse.secure_sum.private_step import step_form, take_step
from fedse.store.buffer import Buffer
from fedse.store.run import Run
from fedse.store.run_folder import open_run
from fedse.types import Adapter
from tests.system.field import Field, field, lines
from tests.system.kills import ROUND_SECONDS, SITES, Kill, experiment, order_all, timed

CLIENT_POINTS = {
    "client in rollout": "rollout.progress",
    "client in gradient": "gradient.computed",
    "client in upload": "upload.started",
    "client in masking": "answered.masked",
}
SERVER_POINTS = {
    "server in summing": "sum.stage.masked",
    "server before step": "sum.stage.unmask",
    "server before commit": "commit.started",
    "server after commit": "round.committed",
}
POINTS = {**CLIENT_POINTS, **SERVER_POINTS}
STEP = f"""
[step]
units = 1000
noise = {USUAL_NOISE}
momentum = 0.5
"""
EPSILON = 8.0


class StepMatrix(NamedTuple):
    """What a federation went through and how it ended."""

    kills: list[Kill]
    rounds: int
    answers: int
    """Votes that the sites have in their outboxes."""
    uncommitted: list[int]
    """Rounds that are not committed exactly once, with a step of all sites."""
    charges: list[str]
    """Sites and rounds whose vote has another number of charges than one, or the reverse."""
    uncharged: list[str]
    """What left before the charge of its round was on record."""
    second: list[str]
    """Sites and rounds for which two answers of one kind left that differ."""
    ledgers: list[str]
    """Those in which something is amiss."""
    elsewhere: list[int]
    """Rounds whose adapter and velocity do not follow from the votes in the outboxes."""
    kept: list[str]
    """Files of sums, or secrets of noise, that are left."""

    @property
    def amiss(self) -> dict[str, Any]:
        """All that is not to be."""
        counts = ("kills", "rounds", "answers")
        return {k: found for k, found in self._asdict().items() if found and k not in counts}


def step_experiment(rounds: int) -> str:
    plain = experiment(rounds).replace("[train]", '[train]\nfactors = "b"')
    return plain.replace("[aggregate]", '[aggregate]\nsecure = true\nclip = "none"') + STEP


def step_matrix(path: Path, *, times: int, light: bool = False) -> StepMatrix:
    """Each point is struck `times` times, once in each round; the last round is left in peace."""
    rounds, patience = times + 1, 2 * ROUND_SECONDS * (times + 1)
    with field(path / "field", step_experiment(rounds), light=light) as here:
        homes = {site: here.home(site) for site in SITES}
        introduce(here.config, here.federation.run, homes)
        for home in homes.values():
            give_budget(home / "site.toml")
        order_all(here, times, CLIENT_POINTS, SERVER_POINTS)
        for site in SITES:
            here.start_site(site)
        here.start_server()
        assert here.wait_for_end(patience) == 0, here.last_words()
        assert set(here.end().values()) == {0}
        return account(here, rounds)


def give_budget(file: Path) -> None:
    """The site's own settings have a budget, and its outbox keeps all votes."""
    own: Any = tomlkit.parse(file.read_text())
    own["privacy"] = {"epsilon": EPSILON}
    own["storage"]["answers"] = 0
    file.write_text(tomlkit.dumps(own))


def account(here: Field, rounds: int) -> StepMatrix:
    """What is in the folders afterwards, against each other."""
    events, left = here.events(), lines(here.plan / "left.jsonl")
    votes = {site: votes_of(here.home(site)) for site in SITES}
    with closing(open_run(here.federation.run, clock=float)) as run:
        steps = [one.index for one in run.results() if one.voters == SITES]
        elsewhere = [n for n in range(1, rounds + 1) if not follows(run, n, votes)]
    told = [e["round"] for e in events if e["event"] == "round.committed"]
    return StepMatrix(
        kills=[timed(here, events, one, POINTS) for one in here.killed()],
        rounds=len(steps),
        answers=sum(map(len, votes.values())),
        uncommitted=[n for n in range(1, rounds + 1) if (steps.count(n), told.count(n)) != (1, 1)],
        charges=[x for site in SITES for x in unequal(here.home(site), votes[site], rounds)],
        uncharged=[
            f"{one['who']} {one['round']} {one['kind']}"
            for one in left
            if one["kind"] in {"train", *SUM_STAGES} and one["digest"] and one["charges"] != 1
        ],
        second=differing(left),
        ledgers=unsound([here.federation.run, *map(here.home, SITES)]),
        elsewhere=elsewhere,
        kept=kept_of(here, rounds),
    )


def votes_of(home: Path) -> dict[int, list[bytes]]:
    """By round: all votes of the site's outbox, which are numbers with noise and without masks."""
    found = defaultdict[int, list[bytes]](list)
    with closing(sqlite3.connect(home / "buffer.db")) as db:
        for round, vote in db.execute("SELECT round, adapter FROM outbox WHERE kind = 'train'"):
            found[round].append(vote)
    return dict(found)


def unequal(home: Path, votes: dict[int, list[bytes]], rounds: int) -> list[str]:
    """Rounds that have not exactly one charge and one vote; every charge is of one step."""
    with closing(Buffer(home / "buffer.db")) as buffer:
        charges = buffer.outbox.privacy.charges()
    assert {(one.rate, one.noise, one.steps) for one in charges} == {(1.0, USUAL_NOISE, 1)}
    steps = Counter(one.round for one in charges)
    return [
        f"{home.name} {n}: {steps[n]} charges, {len(votes.get(n, []))} votes"
        for n in {*range(1, rounds + 1), *steps, *votes}
        if (steps[n], len(votes.get(n, []))) != (1, 1)
    ]


def differing(left: Iterable[dict[str, Any]]) -> list[str]:
    """Answers of one site to one kind of question of one round of which there are two."""
    digests = defaultdict[tuple[str, int, str], set[str]](set)
    for one in left:
        if one["digest"]:
            digests[one["who"], one["round"], one["kind"]].add(one["digest"])
    return [" ".join(map(str, key)) for key, found in digests.items() if len(found) > 1]


def unsound(folders: Iterable[Path]) -> list[str]:
    """Ledgers that do not verify, and folders without one."""
    found = []
    for folder in folders:
        verdicts = [verify_ledger(ledger) for ledger in ledgers_in(folder)]
        found += [f"{one.path}: {one.finding}" for one in verdicts if one.finding]
        found += [] if verdicts else [f"{folder} has no ledger"]
    return found


def follows(run: Run, round: int, votes: dict[str, dict[int, list[bytes]]]) -> bool:
    """The adapter after the round and its velocity are those of one step of all votes."""
    config, spec = run.config, run.spec
    part, form = travelling_spec(spec, config), step_form(config)
    total = np.zeros(part.size, dtype=np.uint32)
    for vote in (vote for site in SITES for vote in votes[site].get(round, [])):
        total += masked_from_bytes(vote, part.size)
    before = run.adapter(round - 1)
    (velocity,) = run.moments(round - 1) or (Adapter(spec, np.zeros(spec.size, np.float32)),)
    start, kept = (learned_part(one, part).vector for one in (before, velocity))
    found = take_step(start, kept, total, form, config.step)
    whole = with_resting_factor(Adapter(part, found.end).to_bytes(), part, before)
    (after,) = run.moments(round)
    went = learned_part(after, part).vector
    return whole == run.adapter(round).to_bytes() and bool((went == found.velocity).all())


def kept_of(here: Field, rounds: int) -> list[str]:
    """What would tell a single site's part: nothing of it is to be left."""
    sums = [str(file) for file in (here.federation.run / "sums").iterdir()]
    for site in SITES:
        with closing(Buffer(here.home(site) / "buffer.db")) as buffer:
            begun = partial(buffer.outbox.privacy.is_under_way, here.config.run.name)
            sums += [f"secret of {site} {n}" for n in range(1, rounds + 1) if begun(n)]
    return sums
