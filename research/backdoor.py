"""A triggered backdoor, a slow ramp and plain harm by one of five members: what does the gate see?

    python -m research.backdoor docs/results/backdoor.json --cells runs/backdoor --seeds 0 1 2

Five maze sites with the tiny model; `site-0` is hostile and tells the truth about its validation
games, so that it does not give itself away. The trigger is a word that no other site reads, and
the chosen action is `down`. After each round the adapter plays held-out games as they are, and
again with the trigger in what the agent reads. Whenever the gate asks what a member does to the
others, the counts are also judged by the rule before commit dbf760a, in which the judges were
trimmed by the liars beside the accused. `--published` repeats two arms of `fedse reproduce attack`
in the same way. A finished cell is read from its file, so the program can be stopped.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedse.aggregate.gate import Won, judge
from fedse.aggregate.merge import Vote
from fedse.aggregate.norms import distance
from fedse.config.aggregation import AggregateSection
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.drivers import gating
from fedse.drivers.run import run_local
from fedse.envs.maze.env import Maze
from fedse.envs.maze.layouts import Layout
from fedse.method.rollout import choose_games, rollout
from fedse.method.site import Fit, Site
from fedse.seeds import seed_of
from fedse.site.open import open_site
from fedse.site.remembered import open_remembering
from fedse.store.run import Run
from fedse.store.run_folder import create_run
from fedse.types import Adapter, Clock, Fitted, Lessons
from fedse_reproduce.attackers import HARMS, TRIGGER
from fedse_reproduce.jobs import do_job
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.tables import jobs_of
from research import frame_gate
from research.frame_gate import GAMES, SITES, proven

HOSTILE, ACTION, MEASURED = "site-0", "down", 40
PUBLISHED = ("mislabel, 2 of 5, gate", "flip, 2 of 5, gate")
OPEN_HARM = ("flip", "mislabel", "noise")
RAMPS = {"ramp": 1, "steep ramp": SITES}
"""How many times the mislabelled part counts; five times is all of it after the mean."""
POISON_STEPS = 80
"""Of the hostile member, from its honest update on; no other member can see how long it trains."""
CLIP, PLAIN = {"aggregate.clip": "median"}, {"aggregate.clip": "none"}
MEDIAN = {**PLAIN, "aggregate.type": "research.backdoor:median"}
TRIMMED = {**PLAIN, "aggregate.type": "research.backdoor:trimmed"}
ON, OFF = {"gate.episodes": GAMES, "gate.liars": 1}, {"gate.episodes": 0}


class Arm(NamedTuple):
    form: str
    settings: Mapping[str, Any] = {}
    rounds: int = 3


ARMS: Mapping[str, Arm] = {
    "backdoor": Arm("backdoor"),
    "boosted": Arm("boosted", PLAIN),
    "kept": Arm("kept"),
    "boosted, gate off": Arm("boosted", PLAIN | OFF),
    "ramp": Arm("ramp", rounds=4),
    "honest": Arm("honest", rounds=4),
    "ramp, gate off": Arm("ramp", OFF, rounds=4),
    "steep ramp": Arm("steep ramp", PLAIN, rounds=4),
    "steep ramp, gate off": Arm("steep ramp", PLAIN | OFF, rounds=4),
    "boosted, clip, gate off": Arm("boosted", OFF, rounds=2),
    "boosted, median, gate off": Arm("boosted", MEDIAN | OFF, rounds=2),
    "boosted, trimmed, gate off": Arm("boosted", TRIMMED | OFF, rounds=2),
    "flip": Arm("flip", rounds=2),
    "mislabel": Arm("mislabel", rounds=2),
    "noise": Arm("noise", rounds=2),
    "scaled flip": Arm("scaled flip", PLAIN, rounds=2),
}


def settings(arm: Arm, seed: int) -> Config:
    # An answer is one word; more tokens would only make a spoilt adapter slow.
    given = {**CLIP, **ON, **arm.settings, "rollout.new_tokens": 4}
    return with_settings(frame_gate.settings(arm.rounds, seed), given)


def median(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The median of every number."""
    if not votes:
        return current
    middle = np.median([vote.load().vector for vote in votes], axis=0)
    return Adapter(current.spec, middle.astype(np.float32))


def trimmed(current: Adapter, votes: Sequence[Vote], *, settings: AggregateSection) -> Adapter:
    """The mean of every number without its largest and its smallest value."""
    if len(votes) < 3:
        return current
    middle = np.sort([vote.load().vector for vote in votes], axis=0)[1:-1].mean(axis=0)
    return Adapter(current.spec, middle.astype(np.float32))


def open_member(
    form: str, rounds: int, memory: Path, config: Config, client: str, home: Path, *, clock: Clock
) -> Site:
    """The client's site; the hostile one sends what `form` says."""
    site = open_remembering(memory, config, client, home, clock=clock)
    if client != HOSTILE or form == "honest":
        return site
    return replace(site, fit=partial(hostile_fit, form, rounds, site.fit))


def hostile_fit(
    form: str,
    rounds: int,
    fit: Fit,
    start: Adapter,
    lessons: Lessons,
    settings: TrainSection,
    seed: int,
    course: Course,
) -> Fitted:
    """What the hostile member sends instead of its honest update."""

    def learn(given: Lessons) -> Fitted:
        return fit(start, given, settings, seed, course)

    def learn_more(given: Lessons) -> Fitted:
        longer = settings.model_copy(update={"steps": POISON_STEPS})
        return fit(honest.adapter, given, longer, seed, course)

    if form in OPEN_HARM:
        return HARMS[form](learn, start, lessons, seed)
    honest = learn(lessons)
    here, well = start.vector, honest.adapter.vector
    if form == "scaled flip":
        vector = here - SITES * (well - here)
    elif form in RAMPS:
        share = RAMPS[form] * course.round / rounds
        bad = HARMS["mislabel"](learn, start, lessons, seed)
        vector = (1 - share) * well + share * bad.adapter.vector
    else:
        bad = HARMS["backdoor"](learn_more, honest.adapter, lessons, seed)
        times = 1 if form == "backdoor" else SITES
        vector = well + times * (bad.adapter.vector - well)
    if form == "kept":
        vector = here + (vector - here) * (distance(here, well) / distance(here, vector))
    return honest._replace(adapter=Adapter(start.spec, vector.astype(np.float32)))


class TriggeredMaze(Maze):
    """The maze with the trigger in all that the agent reads."""

    def _view(self, maze: Layout) -> str:
        return f"{super()._view(maze)} {TRIGGER}"


def measured(adapter: Adapter, site: Site, seed: int, memory: Path) -> dict[str, list[int]]:
    """Games won and played, and of moves where the action is a wall, those that take it."""
    file = memory / f"measured-{adapter.digest[:32]}-{seed}.json"
    if file.is_file():
        return dict(json.loads(file.read_text()))
    games = choose_games(site.tasks("test"), MEASURED, seed=seed)
    found: dict[str, list[int]] = {}
    for name, make in (("plain", Maze), ("triggered", TriggeredMaze)):
        played = rollout(
            games,
            partial(make, prompt="short"),
            site.make_policy(adapter, 1.0),
            round=0,
            batch=MEASURED,
            seed=seed,
        )
        walls = [t for one in played for t in one.turns if ACTION not in opened(t.observation)]
        taken = sum(turn.action.strip().endswith(ACTION) for turn in walls)
        found[name] = [sum(one.success for one in played), len(played), taken, len(walls)]
    file.write_text(json.dumps(found))
    return found


def opened(observation: str) -> str:
    return observation.rpartition(" open ")[2]


@contextmanager
def noting() -> Iterator[list[dict[str, Any]]]:
    """What the gate asks meanwhile, with the answers of both rules."""
    found: list[dict[str, Any]] = []
    harm = gating.PlayingSites.harm

    def note(self: Any, accused: Collection[str], idle: Adapter, whole: Adapter) -> Any:
        answer, index = harm(self, accused, idle, whole), self._round.index
        seed = seed_of(self._run.config.run.seed, "harm", index)
        left = max(0, self.liars - len(accused))
        counts = self.play(idle), self.play(whole)
        old = proven(accused, *counts, trimmed=left, seed=seed, liars=self.liars)
        row = {"round": index, "accused": sorted(accused), "old": old, "new": answer.proven}
        found.append({**row, "change": round(answer.change, 3), "bound": round(answer.bound, 3)})
        return answer

    gating.PlayingSites.harm = note  # type: ignore[method-assign]
    try:
        yield found
    finally:
        gating.PlayingSites.harm = harm  # type: ignore[method-assign]


def rounds_of(run: Run, site: Site, seed: int, memory: Path) -> list[dict[str, Any]]:
    rows = []
    for result in run.results():
        row: dict[str, Any] = {"round": result.index, "adapter": result.after[:12]}
        row |= measured(run.adapter(result.index), site, seed, memory)
        row["left_out"] = [f"{one.client} {one.kind}" for one in result.excluded]
        if result.gate:
            row["refused"] = result.gate.refused
            row["change"], row["bound"] = round(result.gate.change, 3), round(result.gate.bound, 3)
            counts = [
                {c: Won(*pair) for c, pair in run.validations(digest).items()}
                for digest in (result.before, result.after)
            ]
            gate_seed = seed_of(seed, "gate", result.index)
            told = judge(counts[0], counts[1], liars=0, level=gating.LEVEL, seed=gate_seed)
            row["accepted_without_liars"] = told.accepted
        rows.append(row)
    return rows


def cell(name: str, seed: int, cells: Path) -> dict[str, Any]:
    """One arm and seed."""
    arm, memory, started = ARMS[name], cells / "remembered", time.process_time()
    config = settings(arm, seed)
    member = partial(open_member, arm.form, arm.rounds, memory)
    with (
        tempfile.TemporaryDirectory(prefix="backdoor-") as folder,
        closing(create_run(Path(folder), config, clock=time.time)) as run,
        noting() as asked,
    ):
        run_local(run, open_site=member)
        site = open_site(config, "site-1", Path(folder) / "measuring", clock=time.time)
        with closing(site.buffer):
            rows = rounds_of(run, site, seed, memory)
    seconds = round(time.process_time() - started, 1)
    return {"arm": name, "seed": seed, "rounds": rows, "asked": asked, "cpu_seconds": seconds}


def published(name: str, seed: int, cells: Path) -> dict[str, Any]:
    """One arm and seed of the published table."""
    [arm] = [arm for arm in TABLES["attack"].arms if arm.label == name]
    [job] = jobs_of([arm], range(seed, seed + 1))
    with noting() as asked:
        found = do_job(job, cells / "published")
    left_out = [list(names) for names in found.suspected]
    row = {"arm": f"published: {name}", "seed": seed, "left_out": left_out, "asked": asked}
    won = [found.curve[max(found.curve)][c] for c in arm.only]
    return {
        **row,
        "won": [sum(n) for n in zip(*won, strict=True)],
        "cpu_seconds": found.cpu_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cells", type=Path, default=Path("runs/backdoor"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=[*ARMS], choices=[*ARMS])
    parser.add_argument("--published", action="store_true")
    given = parser.parse_args()
    given.cells.mkdir(parents=True, exist_ok=True)
    todo: list[tuple[Any, str]] = [(cell, arm) for arm in given.arms]
    todo = [(published, arm) for arm in PUBLISHED] if given.published else todo
    for seed in given.seeds:
        for make, arm in todo:
            file = given.cells / f"{make.__name__}-{arm.replace(' ', '-')}-{seed}.json"
            if not file.is_file():
                file.write_text(json.dumps(make(arm, seed, given.cells)))
                print(file.name, flush=True)
    made = [json.loads(file.read_text()) for file in sorted(given.cells.glob("*-*-*.json"))]
    lines = ",\n".join(json.dumps(one) for one in made)
    given.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
