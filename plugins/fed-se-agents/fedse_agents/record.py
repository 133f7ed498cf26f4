"""Episodes of a program that owns its loop: each request is matched with the earlier conversation.

A request whose messages repeat an earlier answer's conversation continues it, token for token.
An answer is recognised by its text, ignoring surrounding blanks, and by its tool calls, however the
program writes their JSON: the tokens are those that were sampled, never a rewritten call.
Other messages (examples, a summary, a rewritten history) are given to the model as
context and never learned from. A conversation that continues from anywhere but the last answer
is a new branch. **The branch of the last answer is the episode; the others are dropped**: an
episode is one sequence of tokens, and only the last branch certainly led to the reward.

If the agent has roles, the model's name is the role, and the episode has many conversations: see
fedse_agents/threads.py. None of them is dropped.
"""

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
from fedse_agents.rewards import EndReport
from fedse_agents.threads import Conversations, LastBranch, Place, Threads, require_role

UNPLAYED = "the program ended before it asked for this episode"
UNASKED = "the program reported a reward but never asked the model"


class PolicyInput(NamedTuple):
    """A request, made ready for the policy."""

    conversation: Conversation
    place: Place
    given: tuple[Turn, ...]
    """Answers in its history that did not come from here, with tokens where the policy has any."""
    dialogue: Dialogue

    @property
    def kept(self) -> tuple[Turn, ...]:
        """The turns it continues."""
        return self.place.kept

    @property
    def tokens(self) -> int:
        """Of everything before what is asked now."""
        turns = (*self.kept, *self.given)
        return sum(len(turn.context_ids) + len(turn.action_ids) for turn in turns)


@dataclass
class RecordedEpisode:
    """One episode from its first request to its reward."""

    game: Game
    max_turns: int
    opened: float
    """Seconds, by the clock that expires it."""
    roles: tuple[str, ...] = ()
    """The roles that may act; empty = the agent has none."""
    answers: int = 0
    """Over all branches and roles."""
    outcome: Outcome | None = None
    reward: float = 0.0
    role_rewards: tuple[tuple[str, float], ...] = ()
    error: str | None = None
    _truncated: bool = False
    _said: Conversations = field(init=False)

    def __post_init__(self) -> None:
        self._said = Threads() if self.roles else LastBranch()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """With roles those of all conversations, without those of the last answer's branch."""
        return self._said.turns

    @property
    def recorded(self) -> int:
        """Answers that are part of the episode."""
        return self.answers if self.roles else len(self.turns)

    def ask(
        self, conversation: Conversation, encoder: Encoder | None, *, model: str = ""
    ) -> PolicyInput:
        """The conversation as a question; the longest recorded part of it is kept exactly.

        Either `take` or `leave` must follow.
        """
        self._require_open()
        role = require_role(model, self.roles)
        if self.answers >= self.max_turns:
            self._truncated = True
            raise RequestRefused(
                400, "turn_limit", f"the episode has had its {self.max_turns} answers"
            )
        system, past, shown, tools = conversation
        place = self._said.find(role, (system, tools, past))
        given = _foreign_turns(conversation, place.kept, past[place.known :], encoder)
        dialogue = conversation.dialogue((*place.kept, *given), shown, encoder)
        dialogue = dialogue._replace(role=role, thread=place.thread or 0)
        return PolicyInput(conversation, place, given, dialogue)

    def leave(self, question: PolicyInput) -> None:
        """The question gets no answer."""
        self._said.leave(question.place)

    def take(
        self,
        question: PolicyInput,
        reply: Reply | None,
        read: Callable[[str], Said] = lambda text: Said(text.strip()),
    ) -> Reply:
        """The reply is the newest turn, identified by what `read` returns for its text.

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
        self.answers += 1
        answered = ShownAndAnswered(shown, read(reply.text))
        self._said.put(question.place, turn, (system, tools, (*past, answered)))
        return reply

    def close(self, end: EndReport) -> None:
        """The episode has ended."""
        self._require_open()
        self.reward, self.role_rewards = end.reward, end.by_role
        if not self.turns:
            self.outcome, self.error = "broken", UNASKED
        else:
            lost: Outcome = "truncated" if self._truncated else "failure"
            self.outcome = "success" if end.won else lost

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
            role_rewards=self.role_rewards,
        )

    def _require_open(self) -> None:
        if self.outcome is not None:
            raise RequestRefused(409, "episode_closed", f"the episode has ended as {self.outcome}")


class Episodes:
    """The games of one round, each handed out once."""

    def __init__(self, games: Sequence[Game], *, max_turns: int, roles: Sequence[str] = ()) -> None:
        self._games, self._max_turns, self.roles = games, max_turns, tuple(roles)
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
        episode = RecordedEpisode(self._games[number], self._max_turns, now, self.roles)
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
