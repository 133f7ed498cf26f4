"""Build what a client owns from the experiment's config and the client's own folder."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedse.adapters.base import base_path, spec_of
from fedse.agent.policy import Dialogue
from fedse.agent.prompt import Encoder
from fedse.aggregate.ranks import at_rank, cut_down, filled_up
from fedse.config.file import check_command
from fedse.config.schema import ClientSection, Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.envs.base import Env, EnvFactory, make_env
from fedse.errors import ConfigError, EnvError, boundary, require_packages
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import Keep, choose_games, demonstrate, rollout
from fedse.method.site import Fit, Play, Site, tasks_of
from fedse.seeds import seed_of
from fedse.serve.program import Program
from fedse.site.acting import engine_asleep, policy_maker
from fedse.site.own_adapters import keep_adapter
from fedse.site.resume import KeepInBuffer
from fedse.store.buffer import Buffer
from fedse.types import Adapter, AdapterSpec, Fitted, Trajectory

if TYPE_CHECKING:
    from fedse.train.lora import Trainer

# Both names of the class that stands for an agent program.
PROGRAMS = ("fedse.serve:Program", "fedse.serve.program:Program")


def open_site(config: Config, client: str, home: Path, *, clock: Callable[[], float]) -> Site:
    """The client's site, its buffer in `home`, filled with the expert's demonstrations."""
    # Heavy and optional, so imported only where a model is really needed.
    from fedse.agent.loaded import prepare_torch
    from fedse.agent.tokens import load_encoder
    from fedse.train.lora import trainer_for

    member = config.client(client)
    make = partial(make_env, member.env, member.options)
    env, path, spec = make(), base_path(config.model.base), spec_of(config)
    prepare_torch(config.trainer.threads)
    encoder, buffer = load_encoder(path), Buffer(home / "buffer.db")
    if buffer.outbox.newest(config.run.name) is None:  # once, as beginning an episode may be costly
        require_prompt_fits(make, encoder, config, member)
    make_policy = policy_maker(config, path, spec, encoder, home)
    trainer = trainer_for(path, at_rank(spec, member.rank), config.trainer)

    def prepare(lessons: Iterable[Trajectory]) -> list[Trajectory]:
        return [encoder.tokenized(env.system_prompt, lesson) for lesson in lessons]

    fit = fitting(trainer, prepare, spec, config)
    keep = KeepInBuffer(buffer, config, client, spec)
    play = recording(choose_play(env, encoder, keep, config, member), buffer, config)
    tasks = partial(tasks_of, env, member, config.splits)
    own = (client, spec, make, tasks, buffer, make_policy, fit, clock, play, prepare, home)
    site = Site(*own, keep=partial(keep_adapter, home), check=check_hint(member))
    add_demonstrations(site, config)
    return site


def fitting(
    trainer: "Trainer",
    prepare: Callable[[Iterable[Trajectory]], list[Trajectory]],
    spec: AdapterSpec,
    config: Config,
) -> Fit:
    """Trains on prepared lessons, while an engine on the same GPU sleeps.

    Adapters of the agreed rank are trained at the site's own rank, others as they are.
    """

    def fit(
        start: Adapter,
        lessons: Sequence[Trajectory],
        settings: TrainSection,
        seed: int,
        course: Course = Course(),  # noqa: B008  a value that nobody changes
    ) -> Fitted:
        ours = start.spec.rank == spec.rank
        with engine_asleep(config.engine):
            fitted = trainer.fit(
                cut_down(start, trainer.spec) if ours else start,
                prepare(lessons),
                settings=settings,
                context=config.rollout.context,
                seed=seed,
                course=course,
            )
        return fitted._replace(adapter=filled_up(fitted.adapter, start.spec))

    return fit


def require_prompt_fits(
    make: EnvFactory, encoder: Encoder, config: Config, client: ClientSection
) -> None:
    """The first prompt of the client's first task and one answer to it fit into the context."""
    env = make()
    if isinstance(env, Program):
        return  # a program writes its own prompts
    with boundary(EnvError, f"environment {client.env!r} of {client.name}"):
        first = env.reset(tasks_of(env, client, config.splits, "train")[0], seed=0)
        env.close()
    opening = Dialogue(env.system_prompt, (), first.observation)
    context, answer = config.rollout.context, config.rollout.new_tokens
    needed = len(encoder.context(opening)) + answer
    if needed > context:
        raise ConfigError(
            f"rollout.context = {context} is too small for {client.name}: its first prompt has "
            f"{needed - answer} tokens and rollout.new_tokens is {answer}",
            hint=f"--set rollout.context={2 * needed} leaves room for some turns",
        )


def recording(play: Play, buffer: Buffer, config: Config) -> Play:
    """Plays as `play` does, and how every game ended is on record in the client's own buffer."""

    @wraps(play)
    def play_recorded(*args: Any, **options: Any) -> list[Trajectory]:
        played = play(*args, **options)
        games, kept = args[0], config.buffer.keep_played
        record = games[0].record if games else ""
        buffer.record_played(played, experiment=config.run.name, bodies=kept, record=record)
        return played

    return play_recorded


def choose_play(
    env: Env, encoder: Encoder, keep: Keep, config: Config, client: ClientSection
) -> Play:
    """We step an environment; a program plays by itself against a recording endpoint."""
    if not isinstance(env, Program) and config.engine.type == "in-process":
        return partial(rollout, keep=keep)
    if not isinstance(env, Program):
        return partial(
            rollout_at_own_pace,
            keep=keep,
            in_flight=config.engine.in_flight,
            step_seconds=client.step_seconds,
        )
    require_packages("fedse.serve:Program", "starlette", "uvicorn", extra="serve")
    from fedse.serve.play import play_program

    return partial(play_program, encoder=encoder)


def add_demonstrations(site: Site, config: Config) -> None:
    """The buffer holds D_train(0): the scripted expert's successes, always the same ones."""
    own, experiment = config.client(site.client).demonstrations, config.run.name
    count = config.buffer.demonstrations if own is None else own
    if count and not site.buffer.added(experiment, 0):
        seed = seed_of(config.run.seed, site.client, "demonstrations")
        games = choose_games(site.tasks("train"), count, seed=seed)
        demonstrations = demonstrate(games, site.make_env, hint=site.check)
        site.buffer.add(demonstrations, experiment=experiment)


def check_hint(client: ClientSection) -> str:
    """What to do when this client's episodes break."""
    if client.env in PROGRAMS:
        return "fix the program, then try one short round: fedse run CONFIG --set run.rounds=1"
    return check_command(client)
