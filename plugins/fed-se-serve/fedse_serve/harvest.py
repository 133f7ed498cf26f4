"""A client whose experience is its service: a round harvests labelled sessions instead of playing.

    [[clients]]
    name = "me"
    env = "service"
    options = { folder = "/srv/shop/service" }

`folder` has the records. Metrics are declared in [service] of its `site.toml`, else of the one in
the folder above, or in the file that the option `settings` names. A round takes at most
`rollout.episodes` episodes, the sessions labelled first, and leaves the rest to the next one.
Sessions that are held out are never among them: they are what an adapter is evaluated on, as far as
it really served them. `imports` names a file of conversations that are worth imitating, one a line
in OpenAI's chat format, or spans as lines of OTLP's JSON: every round takes them first, and the
buffer has each of them once.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

from fedse.agent.policy import Beat, Policy, no_beat
from fedse.agent.prompt import Encoder
from fedse.envs.base import EnvFactory, Step
from fedse.errors import ConfigError, EnvError
from fedse.method.progress import GamesProgress, untold
from fedse.method.rollout import Game
from fedse.store.buffer_key import seal_beside
from fedse.types import Clock, Split, Task, Trajectory, digest_of
from fedse_serve.bring_in import import_file
from fedse_serve.held_out import HeldOut
from fedse_serve.labels import Label, label_of
from fedse_serve.records import Records, open_records
from fedse_serve.rows import StoredSession
from fedse_serve.schema import FILE, transaction
from fedse_serve.settings import ServiceSettings, read_settings, settings_file
from fedse_serve.stored import feedback_of, session_named, sessions, turns_of
from fedse_serve.trajectories import (
    NAME,
    demonstrations_of,
    episodes_of,
    named,
    names_of,
)

PLACES = 256
"""Tasks of each split: they stand for sessions, so that every share in [splits] has some."""


class Harvested(NamedTuple):
    """One session of a harvest, as it was then."""

    session: str
    success: bool | None
    """None = it has no label, but somebody showed what would have been right."""
    at: float


class Service:
    """Has the members of an environment but cannot be stepped, because people talk to it."""

    owns_loop: Literal[True] = True

    def __init__(
        self,
        *,
        folder: str,
        settings: str = "",
        imports: str = "",
        night: str = "",
        clock: Clock = time.time,
    ) -> None:
        self.name, self.system_prompt, self.max_turns = NAME, "", 1
        self._folder, self._clock = Path(folder).expanduser(), clock
        self._settings = Path(settings).expanduser() if settings else None
        self._imports = Path(imports).expanduser() if imports else None
        self._evaluated = HeldOut()
        self.night = night
        """Another name makes another harvest of the same round of the same adapter."""
        if not (self._folder / FILE).is_file():
            raise ConfigError(
                f"environment 'service': {folder} has no {FILE}, so nothing was recorded there",
                hint="put the agent in service first, or name its folder: "
                'options = { folder = "FOLDER" }',
            )

    @cached_property
    def settings(self) -> ServiceSettings:
        return read_settings(self._settings or settings_file(self._folder))

    @cached_property
    def records(self) -> Records:
        """Nothing is written here that was said, so nothing is redacted."""
        seal = seal_beside(self._folder.parent / "buffer.db")
        return open_records(self._folder, seal=seal, redact=None, held_out=0.0, clock=self._clock)

    def imported(self, encoder: Encoder) -> list[Trajectory]:
        """The demonstrations in the file that the option `imports` names, if it names one."""
        return import_file(self._imports, encoder) if self._imports else []

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(env=NAME, id=f"{split}-{place}", split=split) for place in range(PLACES)]

    def reset(self, task: Task, *, seed: int) -> Step:
        raise _not_steppable()

    def step(self, action: str) -> Step:
        raise _not_steppable()

    def close(self) -> None: ...

    def subject(self, task: Task) -> str:
        """The digest of the person whose session it was; the session if nobody is known."""
        name = task.id.partition("-")[0]
        query = "SELECT person FROM harvest JOIN session USING (session) WHERE task = ?"
        row = self.records.db.execute(query, (name,)).fetchone()
        person = row[0] if row else self._evaluated.person(name, self.records)
        return person or task.id

    def taken_back(self) -> list[Task]:
        """Of sessions that were harvested: successes that are called failures now, and all that
        must not be learned from any more."""
        records = self.records
        query = "SELECT DISTINCT session FROM harvest WHERE label"
        won = {hidden for (hidden,) in records.db.execute(query)}
        names = [
            named(records.marks.task(session.session), number)
            for session, label in _labelled(self, no_beat, held_out=False)
            if label.success is False and records.seal.hide(session.session) in won
            for number in range(session.turns)
        ]
        query = "SELECT session, task FROM harvest JOIN session USING (session) WHERE NOT learn"
        for hidden, task in records.db.execute(query).fetchall():
            turns = records.db.execute("SELECT number FROM turn WHERE session = ?", (hidden,))
            names += names_of(task, [number for (number,) in turns])
        return [Task(env=NAME, id=name, split="train") for name in dict.fromkeys(names)]

    def has_news(self) -> bool:
        """Whether a session has a label that no harvest had."""
        return any(one.success is not None for _, one in _fresh(self, no_beat))

    def player(
        self, encoder: Encoder, beat: Beat, *, roles: Sequence[str] = ()
    ) -> Callable[..., list[Trajectory]]:
        """Harvests a round's episodes, called as `rollout` is."""
        return partial(harvest, encoder=encoder, beat=beat)

    def now(self) -> float:
        return self._clock()


def harvest(
    games: Sequence[Game],
    make_env: EnvFactory,
    policy: Policy,
    *,
    round: int,
    batch: int,
    max_turns: int | None = None,
    seed: int,
    progress: GamesProgress = untold,
    encoder: Encoder,
    beat: Beat = no_beat,
) -> list[Trajectory]:
    """At most as many episodes as games: those to learn from or, if asked to evaluate, held out.

    The same round, seed and adapter harvest the same sessions again.
    """
    service = make_env()
    if not isinstance(service, Service):
        raise EnvError(f"expected the environment service, got {service.name!r}")
    if not games:
        return []
    if games[0].record or games[0].task.split == "test":
        made = served_by(service, policy.name, len(games), round=round, beat=beat)
    else:
        night = digest_of([service.night, round, seed, policy.name])
        given = service.imported(encoder)[: len(games)]
        room = len(games) - len(given)
        made = [*given, *harvested(service, night, room, encoder, round=round, beat=beat)]
    progress(len(made), sum(episode.success for episode in made))
    return made


def harvested(
    service: Service, night: str, most: int, encoder: Encoder, *, round: int, beat: Beat = no_beat
) -> list[Trajectory]:
    """The episodes of the sessions of that harvest, which is made now if it was not before."""
    chosen = _of_night(service.records, night)
    if not chosen:
        chosen = _choose(service, most, encoder, beat)
        _keep(service.records, night, chosen)
    made: list[Trajectory] = []
    for one in chosen:
        made += _episodes(service.records, one, encoder, round)
        beat()
    return made[:most]


def served_by(
    service: Service, adapter: str, most: int, *, round: int, beat: Beat = no_beat
) -> list[Trajectory]:
    """The newest held-out sessions that `adapter` alone served and that have a label, one each."""
    found: list[tuple[float, str, Trajectory]] = []
    for session, label in _labelled(service, beat, held_out=True):
        turns = turns_of(service.records, session.session)
        if label.success is None or not turns or {turn.adapter for turn in turns} != {adapter}:
            continue
        task = service.records.marks.task(session.session)
        episodes = episodes_of(turns, task=task, success=label.success, round=round)
        held = Task(env=NAME, id=task, split="test")
        last = episodes[-1].model_copy(update={"task": held})
        found.append((label.since or 0.0, session.session, last))
    return [episode for *_, episode in sorted(found, key=lambda one: one[:2])[-most:]]


def _labelled(
    service: Service, beat: Beat, *, held_out: bool
) -> Iterator[tuple[StoredSession, Label]]:
    """Sessions that may be looked at and need not be waited for."""
    now = service.now()
    for session in list(sessions(service.records)):
        beat()
        if session.learn and session.held_out == held_out and session.turns:
            feedback = feedback_of(service.records, session.session)
            label = label_of(session, feedback, service.settings, now)
            if label.state != "waiting":
                yield session, label


def _choose(service: Service, most: int, encoder: Encoder, beat: Beat) -> list[Harvested]:
    """Sessions that no harvest had, the one labelled first first, as many as there is room for."""
    chosen: list[Harvested] = []
    room = most
    for _, one in sorted(_fresh(service, beat)):
        size = len(_episodes(service.records, one, encoder, 0))
        if room <= 0:
            break
        if size:
            chosen.append(one)
            room -= size
    return chosen


def _fresh(service: Service, beat: Beat) -> Iterator[tuple[float, Harvested]]:
    """Sessions that need not be waited for and that no harvest had as what they are; since when.

    A failure that is called a success later is one of them.
    """
    records, now = service.records, service.now()
    query = "SELECT session, label FROM harvest ORDER BY at"
    newest = dict(records.db.execute(query).fetchall())
    for session, label in _labelled(service, beat, held_out=False):
        hidden = records.seal.hide(session.session)
        if hidden not in newest or (label.success and not newest[hidden]):
            yield label.since or now, Harvested(session.session, label.success, now)


def _episodes(records: Records, one: Harvested, encoder: Encoder, round: int) -> list[Trajectory]:
    if session_named(records, one.session) is None:
        return []  # forgotten since
    task, turns = records.marks.task(one.session), turns_of(records, one.session)
    said = [said for said in feedback_of(records, one.session) if said.at <= one.at]
    right = demonstrations_of(turns, said, encoder, task=task, round=round)
    if one.success is None:
        return right
    return [*episodes_of(turns, task=task, success=one.success, round=round), *right]


def _of_night(records: Records, night: str) -> list[Harvested]:
    query = "SELECT session, label, at FROM harvest WHERE night = ? ORDER BY number"
    return [
        Harvested(records.seal.show(session), None if label is None else bool(label), at)
        for session, label, at in records.db.execute(query, (night,))
    ]


def _keep(records: Records, night: str, chosen: Sequence[Harvested]) -> None:
    hide, task = records.seal.hide, records.marks.task
    rows = [
        (night, number, hide(one.session), task(one.session), one.success, one.at)
        for number, one in enumerate(chosen)
    ]
    with transaction(records.db):
        records.db.executemany("INSERT INTO harvest VALUES (?, ?, ?, ?, ?, ?)", rows)


def _not_steppable() -> EnvError:
    return EnvError(
        "people talk to an agent in service, so it cannot be stepped or played by hand",
        hint="try it in one short round: fedse run CONFIG --set run.rounds=1",
    )
