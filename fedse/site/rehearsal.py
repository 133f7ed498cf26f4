"""What can be known before a game is played by the agent: whether prompts and replies fit.

The base model's tokenizer and one game of the expert are enough; no weights are loaded.
"""

from fedse.agent.conversations import conversations_of
from fedse.agent.policy import Dialogue
from fedse.agent.prompt import Encoder
from fedse.config.schema import ClientSection, Config
from fedse.envs.base import (
    Env,
    EnvFactory,
    ExpertEnv,
    ProgramEnv,
    acting_in,
    role_prompts_of,
)
from fedse.errors import ConfigError, EnvError, boundary
from fedse.method.rollout import choose_games, demonstrate, scripted_episode
from fedse.method.site import tasks_of
from fedse.results.alarms import ANOTHER_BASE, Alarm
from fedse.types import Purpose, Trajectory

SPELLED = 0.7
"""Tokens per character from which on a tokenizer spells a text instead of knowing its words."""


def require_prompt_fits(
    make: EnvFactory, encoder: Encoder, config: Config, client: ClientSection
) -> None:
    """The first prompt of the client's first task and one answer to it fit into the context."""
    env = make()
    if isinstance(env, ProgramEnv):
        return  # a program writes its own prompts
    needed = len(encoder.context(_opening(env, config, client))) + config.rollout.new_tokens
    context, answer = config.rollout.context, config.rollout.new_tokens
    if needed > context:
        raise ConfigError(
            f"rollout.context = {context} is too small for {client.name}: its first prompt has "
            f"{needed - answer} tokens and rollout.new_tokens is {answer}",
            hint=f"--set rollout.context={2 * needed} leaves room for some turns",
        )


def foreseen(
    make: EnvFactory, encoder: Encoder, config: Config, client: ClientSection
) -> list[Alarm]:
    """What will keep the agent from learning here; an error where the client cannot even begin."""
    env = make()
    if isinstance(env, ProgramEnv):
        return []
    _require_tasks(env, config, client)
    games = choose_games(tasks_of(env, client, config.splits, "train"), 1, seed=0)
    if config.demonstrations(client):
        demonstrate(games, make)
    alarms = _spelled(_opening(env, config, client), encoder, config, client)
    if isinstance(env, ExpertEnv):
        episode = scripted_episode(games[0], env, lambda e: e.expert(), name="expert")
        shown = encoder.tokenized(env.system_prompt, episode, role_prompts_of(env))
        env.close()
        alarms += _too_long(shown, config, client)
    return alarms


def _opening(env: Env, config: Config, client: ClientSection) -> Dialogue:
    """The first prompt of the client's first task."""
    with boundary(EnvError, f"environment {client.env!r} of {client.name}"):
        first = env.reset(tasks_of(env, client, config.splits, "train")[0], seed=0)
        prompt = role_prompts_of(env).get(acting_in(env).role, env.system_prompt)
        env.close()
    return Dialogue(prompt, (), first.observation)


def _require_tasks(env: Env, config: Config, client: ClientSection) -> None:
    """There is a task for every purpose that games are played for."""
    played: dict[Purpose, int] = {
        "test": config.eval.episodes,
        "home": config.eval.home,
        "validation": config.gate.episodes,
    }
    for purpose, episodes in played.items():
        if episodes:
            choose_games(tasks_of(env, client, config.splits, purpose), episodes, seed=0)


def _spelled(
    opening: Dialogue, encoder: Encoder, config: Config, client: ClientSection
) -> list[Alarm]:
    words = f"{opening.system}\n{opening.observation}"
    length, tokens = len(words), len(encoder.action(words))
    if tokens <= SPELLED * length:
        return []
    text = (
        f"{client.name}: the base model {config.model.base} spells the words of this environment, "
        f"{tokens} tokens for {length} letters, so it does not know them"
    )
    return [Alarm("no-action", text, ANOTHER_BASE)]


def _too_long(shown: Trajectory, config: Config, client: ClientSection) -> list[Alarm]:
    """Where the expert's own game would not fit."""
    rollout, alarms = config.rollout, list[Alarm]()
    reply = max((len(turn.action_ids) for turn in shown.turns), default=0)
    if reply > rollout.new_tokens:
        text = (
            f"{client.name}: a reply of the expert has {reply} tokens, and rollout.new_tokens = "
            f"{rollout.new_tokens} cuts it off"
        )
        change = f"fedse run CONFIG --set rollout.new_tokens={2 * reply}"
        alarms.append(Alarm("replies-cut", text, change))
    lengths = [len(one.token_ids) for one in conversations_of(shown)]
    if (whole := max(lengths, default=0)) > rollout.context:
        text = (
            f"{client.name}: a game of the expert has {whole} tokens, and rollout.context = "
            f"{rollout.context} cuts it off"
        )
        change = f"fedse run CONFIG --set rollout.context={2 * whole}"
        alarms.append(Alarm("context-full", text, change))
    return alarms
