"""Episodes of a program that owns its loop: each request is matched with the earlier conversation.

A request whose messages repeat an earlier answer's conversation continues it, token for token.
Other messages (examples, a summary, a rewritten history) are given to the model as
context and never learned from. A conversation that continues from anywhere but the last answer
is a new branch. **The branch of the last answer is the episode; the others are dropped**: an
episode is one sequence of tokens, and of several only the last is sure to have led to the reward.
"""

import math
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedse.agent.policy import Dialogue, Reply
from fedse.agent.prompt import Encoder
from fedse.method.rollout import Game
from fedse.serve.chat import Conversation, RequestRefused, ShownAndAnswered
from fedse.types import Outcome, Trajectory, Turn

UNPLAYED = "the program ended before it asked for this episode"
UNASKED = "the program reported a reward but never asked the model"


class PolicyInput(NamedTuple):
    """A request, made ready for the policy."""

    conversation: Conversation
    kept: tuple[Turn, ...]
    """The turns it continues."""
    given: tuple[Turn, ...]
    """Answers in its history that are not ours, with tokens where the policy has any."""

    @property
    def dialogue(self) -> Dialogue:
        turns = (*self.kept, *self.given)
        return Dialogue(self.conversation.system, turns, self.conversation.shown)


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
    _after: dict[tuple[str, tuple[ShownAndAnswered, ...]], tuple[Turn, ...]] = field(
        default_factory=dict
    )

    def ask(self, conversation: Conversation, encoder: Encoder | None) -> PolicyInput:
        """The conversation as a question; the longest recorded part of it is kept exactly."""
        self._require_open()
        if self.answers >= self.max_turns:
            self._truncated = True
            raise RequestRefused(
                400, "turn_limit", f"the episode has had its {self.max_turns} answers"
            )
        system, past, _ = conversation
        for length in range(len(past), -1, -1):
            kept = self._after.get((system, past[:length]), ())
            if kept or not length:
                return PolicyInput(
                    conversation, kept, _foreign_turns(system, kept, past[length:], encoder)
                )
        raise AssertionError("length reaches 0")

    def take(self, question: PolicyInput, reply: Reply | None) -> Reply:
        """The reply is the episode's last turn; Refused where the context is full."""
        self._require_open()
        if reply is None:
            self._truncated = True
            raise RequestRefused(
                400, "context_length_exceeded", "the conversation fills the context"
            )
        system, past, shown = question.conversation
        given_ids = tuple(i for t in question.given for i in (*t.context_ids, *t.action_ids))
        turn = Turn(
            observation=_observation(question),
            action=reply.text,
            context_ids=given_ids + reply.context_ids,
            action_ids=reply.action_ids,
        )
        self.turns, self.answers = (*question.kept, turn), self.answers + 1
        self._after[system, (*past, ShownAndAnswered(shown, reply.text.strip()))] = self.turns
        return reply

    def close(self, reward: float, success: bool | None = None) -> None:
        """The episode has ended; without `success`, a reward of 1 or more is one."""
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
        """The episode is broken and says why, unless it had ended."""
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
        """The next game as an episode under a key nobody can guess; None when all were given."""
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
        """Those that were opened and have no outcome yet."""
        return [e for e in list(self._open.values()) if e.outcome is None]

    def ended(self) -> list[RecordedEpisode]:
        return [e for e in list(self._open.values()) if e.outcome is not None]

    def trajectories(self, *, policy: str, round: int) -> list[Trajectory]:
        """One per game, in the order of the games; what was never played is broken."""
        played = []
        for number, game in enumerate(self._games):
            episode = self._of_game.get(number) or RecordedEpisode(game, self._max_turns, 0.0)
            episode.break_off(UNPLAYED)
            played.append(episode.trajectory(policy=policy, round=round))
        return played


def _foreign_turns(
    system: str, kept: tuple[Turn, ...], past: Sequence[ShownAndAnswered], encoder: Encoder | None
) -> tuple[Turn, ...]:
    turns: tuple[Turn, ...] = ()
    for shown, answered in past:
        turn = Turn(observation=shown, action=answered)
        if encoder is not None:
            context = encoder.context(Dialogue(system, (*kept, *turns), shown))
            ids = {"context_ids": context, "action_ids": encoder.action(answered)}
            turn = turn.model_copy(update=ids)
        turns = (*turns, turn)
    return turns


def _observation(question: PolicyInput) -> str:
    history = [f"{turn.observation}\n\n[assistant] {turn.action}" for turn in question.given]
    return "\n\n".join([*history, question.conversation.shown])
