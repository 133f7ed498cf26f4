"""Build what a client owns from the experiment's config and the client's own folder."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedse.adapters.base import base_path, spec_of
from fedse.agent.policy import Beat, BeatingPolicy, Policy, no_beat
from fedse.agent.prompt import NO_PROMPTS, Encoder, as_texts
from fedse.audit.game import Probe
from fedse.config.file import check_command
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.course import Course, GradientSum, StepCourse
from fedse.envs.base import (
    MOVED,
    AmendingEnv,
    Env,
    ProgramEnv,
    make_env,
    role_prompts_of,
    subject_of,
)
from fedse.lazy import Lazy
from fedse.method.rollout import Keep, choose_games, demonstrate
from fedse.method.site import Fit, Gradients, Play, Site, tasks_of
from fedse.redact.episode import episode_filter
from fedse.seeds import seed_of
from fedse.site.acting import ActingEngine, MakePolicy, engine_of
from fedse.site.forgotten import remaining_tasks
from fedse.site.known_roles import require_roles
from fedse.site.own_adapters import keep_adapter
from fedse.site.private_training import require_plan
from fedse.site.rehearsal import require_prompt_fits
from fedse.site.resume import KeepInBuffer
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_for
from fedse.types import Adapter, AdapterSpec, Clock, Fitted, Lessons, Trajectory

if TYPE_CHECKING:
    from fedse.train.lora import Trainer

Prepare = Callable[[Sequence[Trajectory]], Sequence[Trajectory]]


def open_site(
    config: Config, client: str, home: Path, *, clock: Clock, beat: Beat = no_beat, new: bool = True
) -> Site:
    """The client's site, its buffer in `home`, filled with the expert's demonstrations.

    `beat` is called with every reply of the policy or of a world, and every optimiser step.
    One that is not `new` was just opened by another process: whether prompts fit is known.
    """
    # Heavy and optional, so imported only where a model is really needed.
    from fedse.agent.loaded import prepare_torch
    from fedse.agent.tokens import load_encoder
    from fedse.train.lora import trainer_for

    member = config.client(client)
    make = partial(make_env, member.env, member.options)
    env, path, spec = make(), base_path(config.model.base), spec_of(config)
    require_plan(config, env)
    require_roles(env, config, member)
    prepare_torch(config.trainer.threads)
    encoder = load_encoder(path)
    buffer = open_buffer(config, home, env, encoder)
    if new and buffer.outbox.newest(config.run.name) is None:  # once: an episode may be costly
        require_prompt_fits(make, encoder, config, member)
    acting = engine_of(config)
    make_policy = beating(acting.policies(path, spec, encoder, home), beat)
    trainer = trainer_for(path, spec, config.trainer, beat)
    prompts = role_prompts_of(env)
    prepare = preparing(encoder, env.system_prompt, prompts, since=config.model.since)
    fit = fitting(trainer, prepare, acting, config, member.roles)
    keep = KeepInBuffer(buffer, config, client, spec)
    roles = member.roles or config.roles.names
    play = recording(choose_play(env, encoder, keep, acting, beat, roles), buffer, config)
    play = amending(play, env, buffer)
    tasks = partial(remaining_tasks, partial(tasks_of, env, member, config.splits), buffer)
    own = (client, spec, make, tasks, buffer, make_policy, fit, clock, play, prepare, home)
    kept, probe = partial(keep_adapter, home), probing(trainer, config, beat)
    gradients = summing(trainer, prepare, acting, config, beat, member.roles)
    site = Site(*own, keep=kept, check=check_hint(member), probe=probe, gradients=gradients)
    add_demonstrations(site, config, beat)
    return site


def preparing(
    encoder: Encoder, system: str, prompts: Mapping[str, str] = NO_PROMPTS, *, since: int
) -> Prepare:
    """Episodes with tokens; those before the round `since` are texts of another model's."""

    def prepare(given: Sequence[Trajectory]) -> Sequence[Trajectory]:
        def tokens(place: int) -> Trajectory:
            one = given[place]
            known = one if one.round >= since else as_texts(one)
            return encoder.tokenized(system, known, prompts)

        return Lazy(len(given), tokens)

    return prepare


def open_buffer(config: Config, home: Path, env: Env, encoder: Encoder | None = None) -> Buffer:
    """The client's buffer, with the site's own redaction and key, and the subjects of its world."""
    return Buffer(
        home / "buffer.db",
        redact=episode_filter(config.redact, home, encoder),
        subject_of=partial(subject_of, env),
        seal=seal_for(home, config.storage, os.environ),
    )


def beating(make: MakePolicy, beat: Beat) -> MakePolicy:
    """Makes the same policies, each of which tells of its replies."""

    def make_beating(adapter: Adapter, temperature: float) -> Policy:
        return BeatingPolicy(make(adapter, temperature), beat)

    return make_beating


def fitting(
    trainer: "Trainer",
    prepare: Prepare,
    acting: ActingEngine,
    config: Config,
    here: Collection[str] = (),
) -> Fit:
    """Trains on prepared lessons, while an engine on the same GPU sleeps.

    `here` are the roles of the agent that act at this client; empty = all of them.
    """
    # Heavy, as the trainer is.
    from fedse.train.by_role import fit_by_role

    roles = config.roles
    by_role = partial(fit_by_role, trainer.fit, roles=roles, here=here)
    trained = by_role if roles.names else trainer.fit

    def fit(
        start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        with acting.asleep():
            return trained(
                start,
                prepare(lessons),
                settings=settings,
                context=config.rollout.context,
                seed=seed,
                course=course,
            )

    return fit


def summing(
    trainer: "Trainer",
    prepare: Prepare,
    acting: ActingEngine,
    config: Config,
    beat: Beat,
    here: Collection[str] = (),
) -> Gradients:
    """Adds up the gradients of prepared lessons, while an engine on the same GPU sleeps."""
    # Heavy, as the trainer is.
    from fedse.train.by_role import lessons_apart
    from fedse.train.step_gradient import step_gradient

    def gradients(
        start: Adapter, lessons: Lessons, course: StepCourse, part: AdapterSpec
    ) -> GradientSum:
        context = config.rollout.context
        with acting.asleep():
            given = lessons_apart(prepare(lessons), config.roles, here, context=context)
            summed = partial(step_gradient, trainer, context=context, beat=beat)
            return summed(start, given, course, part, block_of=config.roles.block_of)

    return gradients


def probing(trainer: "Trainer", config: Config, beat: Beat) -> Probe:
    """Computes what an attacker would, on the base model that the trainer has."""
    # Heavy, as the trainer is.
    from fedse.train.probe import AdapterProbe

    return AdapterProbe(trainer, context=config.rollout.context, beat=beat)


def recording(play: Play, buffer: Buffer, config: Config) -> Play:
    """Plays as `play` does, and how every game ended is on record in the client's own buffer.

    What is returned is what is on record: nothing later sees more than is stored.
    """

    @wraps(play)
    def play_recorded(*args: Any, **options: Any) -> list[Trajectory]:
        played = [buffer.redact(episode) for episode in play(*args, **options)]
        games, kept = args[0], config.buffer.keep_played
        record = games[0].record if games else ""
        buffer.record_played(played, experiment=config.run.name, bodies=kept, record=record)
        return played

    return play_recorded


def amending(play: Play, env: Env, buffer: Buffer) -> Play:
    """Plays as `play` does; before games to learn from, what `env` takes back is unlearned."""
    if not isinstance(env, AmendingEnv):
        return play

    @wraps(play)
    def play_amended(*args: Any, **options: Any) -> list[Trajectory]:
        games = args[0]
        if games and not games[0].record and games[0].task.split == "train":
            buffer.erasures.take_out(env.taken_back())
        return play(*args, **options)

    return play_amended


def choose_play(
    env: Env,
    encoder: Encoder,
    keep: Keep,
    acting: ActingEngine,
    beat: Beat,
    roles: Sequence[str] = (),
) -> Play:
    """We step an environment; a program plays by itself against a recording endpoint."""
    if not isinstance(env, ProgramEnv):
        return acting.play(keep, beat)
    return env.player(encoder, beat, roles=roles) if roles else env.player(encoder, beat)


def add_demonstrations(site: Site, config: Config, beat: Beat = no_beat) -> None:
    """The buffer holds D_train(0): the scripted expert's successes, always the same ones."""
    count, experiment = config.demonstrations(config.client(site.client)), config.run.name
    if count and not site.buffer.added(experiment, 0):
        seed = seed_of(config.run.seed, site.client, "demonstrations")
        games = choose_games(site.tasks("train"), count, seed=seed, apart=config.privacy.on)
        demonstrations = demonstrate(games, site.make_env, hint=site.check, beat=beat)
        site.buffer.add(demonstrations, experiment=experiment)


def check_hint(client: ClientSection) -> str:
    """What to do when this client's episodes break."""
    if MOVED.get(client.env, client.env) == "program":
        return "fix the program, then try one short round: fedse run CONFIG --set run.rounds=1"
    return check_command(client)
