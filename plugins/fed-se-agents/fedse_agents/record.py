"""Episodes of a program that owns its loop: each request is matched with the earlier conversation.

A request whose messages repeat an earlier answer's conversation continues it, token for token.
An answer is recognised by its text, ignoring surrounding blanks, and by its tool calls, however the
program writes their JSON: the tokens are those that were sampled, never a rewritten call.
Other messages (examples, a summary, a rewritten history) are given to the model as
context and never learned from. A conversation that continues from anywhere but the last answer
is a new branch. **The branch of the last answer is the episode; the others are dropped**: an
episode is one sequence of tokens, and only the last branch certainly led to the reward.
"""

import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedse.agent.calls import Said
from fedse.agent.policy import Dialogue, Reply
from fedse.agent.prompt import Encoder
from fedse.method.rollout import Game
from fedse.types import Outcome, Trajectory, Turn
from fedse_agents.conversation import Conversation, ShownAndAnswered
from fedse_agents.refused import RequestRefused

UNPLAYED = "the program ended before it asked for this episode"
UNASKED = "the program reported a reward but never asked the model"


class PolicyInput(NamedTuple):
    """A request, made ready for the policy."""

    conversation: Conversation
    kept: tuple[Turn, ...]
    """The turns it continues."""
    given: tuple[Turn, ...]
    """Answers in its history that did not come from here, with tokens where the policy has any."""
    dialogue: Dialogue


_Past = tuple[str, str, tuple[ShownAndAnswered, ...]]
"""A system prompt, the tools, and the messages after them."""


@dataclass
class RecordedEpisode:
    """One episode from its first request to its reward."""

    game: Game
    max_turns: int
    opened: float
    """Seconds, by the clock that expires it."""
    turns: tuple[Turn, ...] = ()
    """The branch of the last answer."""
    answers: int = 0
    """Over all branches."""
    outcome: Outcome | None = None
    reward: float = 0.0
    error: str | None = None
    _truncated: bool = False
    _after: dict[_Past, tuple[Turn, ...]] = field(default_factory=dict)

    def ask(self, conversation: Conversation, encoder: Encoder | None) -> PolicyInput:
        """The conversation as a question; the longest recorded part of it is kept exactly."""
        self._require_open()
        if self.answers >= self.max_turns:
            self._truncated = True
            raise RequestRefused(
                400, "turn_limit", f"the episode has had its {self.max_turns} answers"
            )
        system, past, shown, tools = conversation
        lengths = range(len(past), 0, -1)
        known = (n for n in lengths if (system, tools, past[:n]) in self._after)
        length = next(known, 0)
        kept = self._after.get((system, tools, past[:length]), ())
        given = _foreign_turns(conversation, kept, past[length:], encoder)
        dialogue = conversation.dialogue((*kept, *given), shown, encoder)
        return PolicyInput(conversation, kept, given, dialogue)

    def take(
        self,
        question: PolicyInput,
        reply: Reply | None,
        read: Callable[[str], Said] = lambda text: Said(text.strip()),
    ) -> Reply:
        """The reply is the episode's last turn, identified by what `read` returns for its text.

        RequestRefused where the context is full.
        """
        self._require_open()
        if reply is None:
            self._truncated = True
            raise RequestRefused(
                400, "context_length_exceeded", "the conversation fills the context"
            )
        system, past, shown, tools = question.conversation
        given_ids = tuple(i for t in question.given for i in (*t.context_ids, *t.action_ids))
        turn = Turn(
            observation=_observation(question),
            action=reply.text,
            context_ids=given_ids + reply.context_ids,
            action_ids=reply.action_ids,
            log_chances=reply.log_chances,
        )
        self.turns, self.answers = (*question.kept, turn), self.answers + 1
        answered = ShownAndAnswered(shown, read(reply.text))
        self._after[system, tools, (*past, answered)] = self.turns
        return reply

    def close(self, reward: float, success: bool | None = None) -> None:
        """The episode has ended; without `success`, a reward of 1 or more is a success."""
        self._require_open()
        if not math.isfinite(reward):
            raise RequestRefused(400, "bad_reward", f"reward must be a finite number, got {reward}")
        won = reward >= 1 if success is None else success
        self.reward = reward
        if not self.turns:
            self.outcome, self.error = "broken", UNASKED
        else:
            lost: Outcome = "truncated" if self._truncated else "failure"
            self.outcome = "success" if won else lost

    def break_off(self, error: str) -> None:
        """The episode is broken, with the reason, unless it had already ended."""
        if self.outcome is None:
            self.outcome, self.error = "broken", error

    def trajectory(self, *, policy: str, round: int) -> Trajectory:
        return Trajectory(
            task=self.game.task,
            seed=self.game.seed,
            turns=self.turns,
            outcome=self.outcome or "broken",
            reward=self.reward,
            policy=policy,
            round=round,
            error=self.error,
        )

    def _require_open(self) -> None:
        if self.outcome is not None:
            raise RequestRefused(409, "episode_closed", f"the episode has ended as {self.outcome}")


class Episodes:
    """The games of one round, each handed out once."""

    def __init__(self, games: Sequence[Game], *, max_turns: int) -> None:
        self._games, self._max_turns = games, max_turns
        # A deque and a dict, because programs open episodes from several threads.
        self._left = deque(range(len(games)))
        self._open: dict[str, RecordedEpisode] = {}
        self._of_game: dict[int, RecordedEpisode] = {}

    def open_next(self, now: float) -> tuple[str, RecordedEpisode] | None:
        """The next game as an episode under an unguessable key; None when none is left."""
        try:
            number = self._left.popleft()
        except IndexError:
            return None
        key = secrets.token_urlsafe(16)
        episode = RecordedEpisode(self._games[number], self._max_turns, now)
        self._open[key] = self._of_game[number] = episode
        return key, episode

    def find(self, key: str) -> RecordedEpisode:
        if key not in self._open:
            raise RequestRefused(
                404, "no_such_episode", "there is no such episode; POST /episodes first"
            )
        return self._open[key]

    def playing(self) -> list[RecordedEpisode]:
        """Episodes that were opened and have no outcome yet."""
        return [e for e in list(self._open.values()) if e.outcome is None]

    def ended(self) -> list[RecordedEpisode]:
        return [e for e in list(self._open.values()) if e.outcome is not None]

    def trajectories(self, *, policy: str, round: int) -> list[Trajectory]:
        """One per game, in the order of the games; games that were never played are broken."""
        played = []
        for number, game in enumerate(self._games):
            episode = self._of_game.get(number) or RecordedEpisode(game, self._max_turns, 0.0)
            episode.break_off(UNPLAYED)
            played.append(episode.trajectory(policy=policy, round=round))
        return played


def _foreign_turns(
    conversation: Conversation,
    kept: tuple[Turn, ...],
    past: Sequence[ShownAndAnswered],
    encoder: Encoder | None,
) -> tuple[Turn, ...]:
    turns: tuple[Turn, ...] = ()
    for shown, answered in past:
        asked = conversation.dialogue((*kept, *turns), shown, encoder)
        turn = Turn(observation=asked.observation, action=answered.written())
        if encoder is not None:
            ids = {"context_ids": encoder.context(asked), "action_ids": encoder.action(turn.action)}
            turn = turn.model_copy(update=ids)
        turns = (*turns, turn)
    return turns


def _observation(question: PolicyInput) -> str:
    history = [f"{turn.observation}\n\n[assistant] {turn.action}" for turn in question.given]
    return "\n\n".join([*history, question.dialogue.observation])
