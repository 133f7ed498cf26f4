"""`fedse privacy forget`: erase a person or case, and train an adapter without it."""

import json as json_format
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fedse.cli.display import Json
from fedse.cli.federation_options import require_flower_and_model
from fedse.cli.phrases import counted
from fedse.cli.site_options import HERE, HomeOption, buffer_of, idle, opened
from fedse.envs.base import SubjectEnv, make_env, subject_of
from fedse.errors import ConfigError
from fedse.federation.security import note
from fedse.site.acting import engine_of
from fedse.site.forget import Forgotten, forget_subject, look_for
from fedse.site.own_adapters import FOLDER
from fedse.site.retrain import RETRAINED, Retrained, retrain_without

if TYPE_CHECKING:
    from fedse.federation.home import Home

Subject = Annotated[
    str,
    Parameter(
        help="The name, as the environment gives it; - reads it from standard input.",
        allow_leading_hyphen=True,
    ),
]
SHORT = 12


def forget(
    subject: Subject,
    /,
    *,
    home: HomeOption = HERE,
    dry_run: Annotated[bool, Parameter(help="Change nothing, only count.")] = False,
    retrain: Annotated[
        bool, Parameter(help="Then train an adapter for this site from what is left.")
    ] = False,
    from_newest: Annotated[
        bool,
        Parameter(help="With --retrain: start from the newest adapter, whatever it contains."),
    ] = False,
    json: Json = False,
) -> None:
    """Remove everything stored here about a person or case, and list the adapters made from it.

    Episodes are erased from the database and its log, and no task about that person is played
    again. The ledger gets a line without the name. Adapters already sent cannot be recalled. With
    --retrain the site gets an adapter that cannot contain what was forgotten, which `fedse site
    adapter` compares with the others; nothing is sent, and no earlier answer changes.

    Example: fedse privacy forget "Ada Quill" --dry-run
    """
    _require_options(dry_run=dry_run, retrain=retrain, from_newest=from_newest)
    if retrain:
        require_flower_and_model()
    site, name = opened(home), _read(subject)
    told = _removed(site, name, dry_run=dry_run)
    made = _retrained(site, name, newest=from_newest) if retrain else None
    if json:
        more = {} if made is None else {"retrained": _retrained_facts(made)}
        print(json_format.dumps({**_facts(told, dry_run=dry_run), **more}))
        return
    print("\n".join(forgotten_lines(told, home, dry_run=dry_run)))
    if made:
        print("\n".join(_retrained_lines(made, home)))


def _require_options(*, dry_run: bool, retrain: bool, from_newest: bool) -> None:
    if (dry_run and retrain) or (from_newest and not retrain):
        raise ConfigError(
            "--retrain does not go with --dry-run, and --from-newest needs --retrain",
            hint="fedse privacy forget SUBJECT --retrain --from-newest",
        )


def _removed(home: "Home", name: str, *, dry_run: bool) -> Forgotten:
    member = home.config.client(home.card.site)
    with (
        idle(home.path, "privacy forget SUBJECT"),
        closing(make_env(member.env, member.options)) as env,
        buffer_of(home.path, subject_of=partial(subject_of, env)) as buffer,
    ):
        if dry_run:
            told = look_for(name, buffer, home.path, home.config)
        else:
            given = (name, buffer, home.path, home.card.site, home.config)
            told = forget_subject(*given, clock=time.time)
            note(home.path, "person.forgotten", clock=time.time)
    known = told.found.rows or told.found.removed or told.erasures
    if not known and not isinstance(env, SubjectEnv):
        raise ConfigError(
            f"environment {member.env} does not report whom a task is about",
            hint="give it a method subject(task) that returns the name",
        )
    return told


def _retrained(home: "Home", name: str, *, newest: bool) -> Retrained:
    from fedse.site.open import open_site

    with (
        idle(home.path, "privacy forget SUBJECT"),
        engine_of(home.config).ready(home.path / "engine"),
    ):
        site = open_site(home.config, home.card.site, home.path, clock=time.time)
        with closing(site.buffer):
            return retrain_without(name, site, home.config, home.path, newest=newest)


def _retrained_facts(made: Retrained) -> dict[str, Any]:
    facts = {"start": made.start.round, "start_adapter": made.start.adapter.digest}
    counts = {"clean": made.clean, "lessons": made.lessons, "steps": made.steps}
    return {**facts, **counts, "adapter": made.adapter.digest}


def _retrained_lines(made: Retrained, home: Path) -> Iterator[str]:
    carries = (
        "cannot contain what was forgotten" if made.clean else "MAY CONTAIN what was forgotten"
    )
    after = f"adapter after round {made.start.round}" if made.start.round else "first adapter"
    yield f"start    the federation's {after}, which {carries}"
    yield f"trained  {counted(made.steps, 'step')} on {counted(made.lessons, 'lesson')} left here"
    yield f"kept     {home / FOLDER / RETRAINED}, adapter {made.adapter.digest[:SHORT]}"
    yield "sent     nothing; the next answer also learns only from what is left"
    yield f"next     fedse site adapter --out best --home {home}"


def _read(subject: str) -> str:
    name = sys.stdin.readline().rstrip("\n") if subject == "-" else subject
    if not name.strip():
        raise ConfigError("the name is empty", hint="fedse privacy forget NAME")
    return name


def _facts(told: Forgotten, *, dry_run: bool) -> dict[str, Any]:
    found, descent = told.found, told.descent
    return {
        "dry_run": dry_run,
        "lessons": len(found.lessons),
        "games": len(found.games),
        "parts": len(found.parts),
        "aged": bool(found.removed),
        "unknown": found.unknown,
        "mentioned": found.mentioned,
        "marks": [one.mark for one in told.erasures],
        "sent": [one._asdict() for one in descent.sent],
        "merged": [one._asdict() for one in descent.merged],
        "removed": [str(one.folder) for one in descent.own if not one.is_global],
        "copies": [str(one.folder) for one in descent.own if one.is_global],
        "answers_kept": told.answers,
        "exports": told.exports,
        "elsewhere": [str(file) for file in told.elsewhere],
    }


def forgotten_lines(told: Forgotten, home: Path, *, dry_run: bool) -> Iterator[str]:
    """What was removed, or would be, what descends from it, and what its owner can do."""
    found = told.found
    rows = (
        f"{counted(len(found.lessons), 'lesson')}, {counted(len(found.games), 'game')} on record, "
        f"{counted(len(found.parts), 'part')} of a round under way"
    )
    yield f"{'found' if dry_run else 'removed':<9}{rows}"
    if found.removed:
        yield "age      episodes about it were removed before, because they were too old"
    elif not found.rows and told.erasures:
        yield "before   this name was already forgotten here; the following is on record"
    if found.unknown:
        yield f"unknown  {counted(found.unknown, 'record')}: the environment names nobody"
    if found.mentioned:
        yield f"mention  {counted(found.mentioned, 'other record')} with the name, not removed"
    for one in told.erasures:
        yield f"ledger   line of kind forgotten, mark {one.mark[:SHORT]}; it does not hold the name"
    yield from _descent_lines(told, home)
    for path in told.exports:
        yield f"EXPORT   {path} holds some of it: delete it and its copies"
    for file in told.elsewhere:
        yield f"FILE     {file} contains the name or may hold earlier episodes: check and delete it"
    if dry_run:
        yield "nothing was changed"


def _descent_lines(told: Forgotten, home: Path) -> Iterator[str]:
    sent, merged, own = told.descent
    for one in sent:
        yield f"sent     round {one.round}, adapter {one.adapter[:SHORT]} of {one.experiment}"
    for one in merged:
        yield f"merged   came with round {one.round}, adapter {one.adapter[:SHORT]}"
    for kept in own:
        what = "copy of a merged adapter, kept" if kept.is_global else "removed"
        yield f"own      {kept.folder.relative_to(home.resolve())}, {kept.digest[:SHORT]}: {what}"
    if told.answers:
        rounds = ", ".join(map(str, told.answers))
        yield f"outbox   answers to rounds {rounds} stay until later rounds replace them"
    if sent:
        yield "Adapters already sent cannot be recalled. What you can do:"
        again = f"fedse privacy forget SUBJECT --retrain --home {home}"
        yield f"  train an adapter without it, for this site: {again}"
        yield "  ask the coordinator to delete the adapters above and those of later rounds, and to"
        yield "  begin again with the adapter of a round before the first of them"
