"""An episode while it is played: what its world said last, who has to act on it, how it ended."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedse.agent.conversations import turns_with
from fedse.agent.policy import Dialogue, Reply
from fedse.envs.base import Acting, Env, Step, acting_in, role_prompts_of
from fedse.errors import EnvError, boundary
from fedse.types import Outcome, Task, Trajectory, Turn

NOBODY = Acting("")
"""The agent has no roles."""


@dataclass
class OpenEpisode:
    """An episode while it is played."""

    task: Task
    seed: int
    env: Env
    turns: list[Turn] = field(default_factory=list)
    observation: str = ""
    outcome: Outcome | None = None
    reward: float = 0.0
    error: str | None = None
    invalid_turns: int = 0
    role_rewards: Mapping[str, float] = field(default_factory=dict)
    acting: Acting = NOBODY
    """Who has to act on the observation."""

    def dialogue(self) -> Dialogue:
        """What the role that has to act knows."""
        past = turns_with(self.turns, *self.acting)
        prompt = role_prompts_of(self.env).get(self.acting.role, self.env.system_prompt)
        return Dialogue(prompt, past, self.observation)._replace(**self.acting._asdict())

    def said(self, reply: Reply) -> Turn:
        """The turn of the role that had to act."""
        return Turn(
            observation=self.observation,
            action=reply.text,
            context_ids=reply.context_ids,
            action_ids=reply.action_ids,
            log_chances=reply.log_chances,
            **self.acting._asdict(),
        )

    def take(self, step: Step) -> None:
        self.observation, self.reward = step.observation, step.reward
        self.invalid_turns += not step.valid
        if step.done:
            self.outcome = "success" if step.success else "failure"
            self.role_rewards = step.role_rewards
        else:
            self.acting = acting_in(self.env)

    def attempt(self, what: str, act: Callable[[], Step]) -> None:
        """The world's answer is taken, or the episode is broken and says why."""
        try:
            with boundary(EnvError, f"{self.task.env}.{what}"):
                self.take(act())
        except EnvError as error:
            self.outcome, self.error = "broken", str(error)

    def trajectory(self, policy: str, round: int) -> Trajectory:
        """The episode as it ended; one without an end was cut off."""
        return Trajectory(
            task=self.task,
            seed=self.seed,
            turns=tuple(self.turns),
            outcome=self.outcome or "truncated",
            reward=self.reward,
            policy=policy,
            round=round,
            error=self.error,
            invalid_turns=self.invalid_turns,
            role_rewards=tuple(sorted(self.role_rewards.items())),
        )
