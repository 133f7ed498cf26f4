"""What a server can find out from one reply about the lessons behind it, for several ways to learn.

    python -m research.measure_leakage leakage.json
    python -m research.measure_leakage leakage.json --arms arms.toml --lessons 400 --seeds 3

One row per arm: the best attack's AUC and hits at 1 % false alarms, and the bits of planted
secrets. An arm is a table [[arm]] in a TOML file; `Arm` below says what it may hold. Lessons are
the scripted expert's games in one of the five worlds, each once, and the model is the shipped one
that knows these worlds.
"""

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedse.adapters.base import base_path, initial_adapter, spec_of
from fedse.agent.loaded import prepare_torch
from fedse.agent.prompt import Encoder
from fedse.agent.tokens import load_encoder
from fedse.audit.conduct import AuditPlan, conduct_audit
from fedse.audit.controls import with_observations
from fedse.audit.game import AuditSubject
from fedse.config.file import load_config
from fedse.config.privacy import PrivacySection
from fedse.config.redaction import RedactSection
from fedse.config.schema import Config
from fedse.config.section import Positive, Section
from fedse.config.training import TrainSection
from fedse.course import Course, PrivateCourse
from fedse.envs.base import Env, make_env
from fedse.method.rollout import choose_games, demonstrate
from fedse.privacy.accountant import noise_for
from fedse.privacy.plan import steps_in
from fedse.redact.episode import episode_filter
from fedse.seeds import seed_of
from fedse.train.lora import trainer_for
from fedse.train.probe import AdapterProbe
from fedse.types import Adapter, Trajectory, digest_of

Change = Callable[[Trajectory], Trajectory]


class Arm(Section):
    """One way to learn; every setting that is not named is the default one."""

    name: str
    train: TrainSection = TrainSection()
    """As in an experiment's [train]."""
    observations: bool = False
    """Whether what the agent was shown is learned from, too: a mistake that leaks."""
    redact: RedactSection = RedactSection()
    """As in a site's [redact]; planted secrets have no form that it knows."""
    codes: str = ""
    """A regular expression for secrets, as a line of a site's own patterns."""
    privacy: PrivacySection = PrivacySection()
    """As in a site's [privacy]; epsilon is for this one reply."""
    sites: Positive = 1
    """How many sites' replies the server sees, as their mean only; the others learned from other
    games of the same world."""
    repeats: Positive = 1
    """In how many episodes each planted secret is."""


# As the shipped configs with this model, which learns nothing at the default rate.
QUICK = TrainSection(lr=2e-3, batch=4)
ARMS = (
    Arm(name="default"),
    Arm(name="observations too, lr 2e-3", train=QUICK, observations=True),
    Arm(name="lr 2e-3", train=QUICK),
)


def games_of(make: Callable[[], Env], count: int, *, seed: int) -> list[Trajectory]:
    """Different successful games of the expert in one client's world."""
    games = choose_games(make().tasks("train"), count, seed=seed)
    shown = {lesson.content_digest: lesson for lesson in demonstrate(games, make)}
    return [lesson for lesson in shown.values() if lesson.success]


class World:
    """The games of one world, its model, and how it is learned from."""

    def __init__(
        self, config: Config, client: str, lessons: int, *, seed: int, pools: int = 6
    ) -> None:
        self.config, self.seed, self._lessons = config, seed, lessons
        self.path, self.spec = base_path(config.model.base), spec_of(config)
        self.encoder: Encoder = load_encoder(self.path)
        member = config.client(client)
        self.make = partial(make_env, member.env, member.options)
        self.system = self.make().system_prompt
        self.trainer = trainer_for(self.path, self.spec, config.trainer)
        self.games = games_of(self.make, pools * lessons, seed=seed)
        self.start = initial_adapter(self.spec, seed=seed)

    def pool(self, site: int) -> list[Trajectory]:
        """The games of one site; no other has them."""
        return self.games[site * self._lessons : (site + 1) * self._lessons]

    @property
    def context(self) -> int:
        return self.config.rollout.context

    def tokenized(self, arm: Arm, lesson: Trajectory) -> Trajectory:
        """As the attacker knows an episode: before anything was redacted."""
        made = self.encoder.tokenized(self.system, lesson)
        return with_observations(made) if arm.observations else made

    def fit(
        self,
        lessons: Sequence[Trajectory],
        settings: TrainSection,
        seed: int,
        privacy: PrivacySection = PrivacySection(),  # noqa: B008  a value that nobody changes
    ) -> Adapter:
        """One site's reply."""
        course = private_course(len(lessons), settings, privacy, seed) if privacy.on else Course()
        own: dict[str, Any] = {"settings": settings, "context": self.context, "seed": seed}
        return self.trainer.fit(self.start, lessons, course=course, **own).adapter

    def replies(self, arm: Arm, redact: Change, sites: Sequence[int]) -> list[Adapter]:
        """What these sites send if all of them learn in this way, each from games of its own."""
        pools = [[redact(self.tokenized(arm, x)) for x in self.pool(site)] for site in sites]
        return [
            self.fit(pool, arm.train, seed_of(self.seed, "site", site), arm.privacy)
            for site, pool in zip(sites, pools, strict=True)
        ]

    def mean(self, replies: Sequence[Adapter]) -> Adapter:
        mean = np.mean([reply.vector for reply in replies], axis=0, dtype=np.float64)
        return Adapter(self.spec, mean.astype(np.float32))

    def subject(self, arm: Arm, redact: Change) -> AuditSubject:
        others = self.replies(arm, redact, range(1, arm.sites))

        def learn(lessons: Sequence[Trajectory], settings: TrainSection, seed: int) -> Adapter:
            kept = [redact(lesson) for lesson in lessons]
            return self.mean([self.fit(kept, settings, seed, arm.privacy), *others])

        tokenized = partial(self.tokenized, arm)
        pool = [tokenized(lesson) for lesson in self.pool(0)]
        probe = AdapterProbe(self.trainer, context=self.context)
        own = (arm.train, learn, probe, tokenized, self.fit)
        return AuditSubject(self.start, pool, *own)


def private_course(
    lessons: int, settings: TrainSection, privacy: PrivacySection, seed: int
) -> Course:
    """Steps whose noise spends all of epsilon in this one fit; anybody can make them again."""
    steps, units = steps_in(settings, rate=privacy.rate), tuple((i,) for i in range(lessons))
    epsilon, secret = privacy.epsilon or 0.0, bytes.fromhex(digest_of(["measured", seed]))
    noise = noise_for(epsilon, privacy.delta, rate=privacy.rate, steps=steps)
    own = (units, privacy.rate, steps, privacy.clip, noise, secret)
    return Course(private=PrivateCourse(*own))


def redaction(arm: Arm, folder: Path, encoder: Encoder) -> Change:
    """What an arm's episodes pass before they are learned from; each is looked at once."""
    settings = arm.redact
    if arm.codes:
        (folder / "own.toml").write_text(f"CODE = {json.dumps(arm.codes)}\n", encoding="utf-8")
        settings = settings.model_copy(update={"patterns": ("own.toml",)})
    change = episode_filter(settings, folder, encoder)
    seen: dict[str, Trajectory] = {}

    def redact(lesson: Trajectory) -> Trajectory:
        if lesson.digest not in seen:
            seen[lesson.digest] = change(lesson)
        return seen[lesson.digest]

    return redact


def measured(arm: Arm, world: World, plan: AuditPlan) -> dict[str, Any]:
    """One arm's row: the worst figures, all figures, and the seconds of CPU it took."""
    began = time.process_time()

    def tell(text: str) -> None:
        print(f"{arm.name}: {text}", file=sys.stderr, flush=True)

    with TemporaryDirectory() as folder:
        plan = plan._replace(repeats=arm.repeats)
        redact = redaction(arm, Path(folder), world.encoder)
        result = conduct_audit(world.subject(arm, redact), plan, tell=tell)
    seconds = round(time.process_time() - began, 1)
    worst = {name: round(figure, 3) for name, figure in result.worst._asdict().items()}
    row = {"arm": arm.name, "seed": plan.seed, **worst, "cpu_seconds": seconds}
    return {**row, "failed_controls": result.failed_controls, "audit": result.model_dump()}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The attacks of every arm, its secrets and its controls, as text."""
    lines = []
    for row in rows:
        audit = row["audit"]
        lines += [f"{row['arm']}, seed {row['seed']}: {audit['lessons']} lessons"]
        for one in audit["attacks"]:
            lines += [f"  {one['attack']:<12} AUC {_span(one['auc'])}  TPR {_span(one['tpr'])}"]
        for one in audit["canaries"]:
            lines += [f"  {one['place']:<12} bits {_span(one['bits'])}, most {one['most']:.1f}"]
        for one in audit["controls"]:
            bounds = f"expected {one['low']:.2f} to {one['high']:.2f}"
            lines += [f"  {one['control']:<12} {one['figure']:.3f}, {bounds}"]
    return "\n".join(lines)


def _span(estimate: dict[str, float]) -> str:
    return "{value:.3f} ({low:.3f} to {high:.3f})".format(**estimate)


def read_arms(file: Path) -> tuple[Arm, ...]:
    given = tomllib.loads(file.read_text(encoding="utf-8"))["arm"]
    # JSON, because only there a list is taken for a tuple.
    return tuple(Arm.model_validate_json(json.dumps(one)) for one in given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arms", type=Path, help="a TOML file with [[arm]] tables")
    parser.add_argument("--config", type=Path, default=Path("configs/five-worlds.toml"))
    parser.add_argument("--client", default="textcraft")
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--shadows", type=int, default=4)
    parser.add_argument("--canaries", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    prepare_torch(1)
    config, rows = load_config(given.config), []
    for seed in range(1, given.seeds + 1):
        world = World(config, given.client, given.lessons, seed=seed)
        plan = AuditPlan(shadows=given.shadows, canaries=given.canaries, seed=seed)
        for arm in read_arms(given.arms) if given.arms else ARMS:
            rows += [measured(arm, world, plan)]
            settings = {k: v for k, v in vars(given).items() if k not in ("out", "arms", "config")}
            found = {"settings": settings, "rows": rows}
            given.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(table(rows[-1:]), flush=True)


if __name__ == "__main__":
    main()
