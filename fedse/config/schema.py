"""One TOML file describes one experiment; every key is typed, unknown keys are refused.

Sections are named after the stages of the method. What all clients must have in common is what
`Config.agreed_digest` covers; a client's own `[[clients]]` entry never comes from the server.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fedse import plugins
from fedse._version import PROTOCOL
from fedse.config.aggregation import AggregateSection
from fedse.config.combinable import require_combinable
from fedse.config.hardware import OWN_SECTIONS, EngineSection, TrainerSection, WatchdogSection
from fedse.config.judging import EvalSection, GateSection, PersonalSection, SplitsSection
from fedse.config.presets import loosened
from fedse.config.privacy import PrivacySection
from fedse.config.private_step import StepSection
from fedse.config.redaction import RedactSection
from fedse.config.roles import RoleName, RolesSection
from fedse.config.rounds import OPEN, Rounds, last_round
from fedse.config.schedule import ScheduleSection
from fedse.config.section import (
    Options,
    Positive,
    Section,
    one_of,
    require_options,
)
from fedse.config.storage import StorageSection
from fedse.config.training import (
    TrainSection,
    WarmstartSection,
    arc_of,
    warm_training,
)
from fedse.course import Arc
from fedse.types import CLIENT_NAME, digest_of

History = Literal["all", "demonstrations", "round"]


class RunSection(Section):
    name: Annotated[str, Field(pattern=CLIENT_NAME)] = "run"
    """Name of the experiment; clients store their finished work under it."""
    rounds: Rounds = 20
    """Federated rounds (paper: 20); "open" = without an end."""
    seed: int = 0
    """Every random choice of the experiment follows from it."""
    workers: Positive = 1
    """Number of processes in which the local driver runs the clients; it does not affect the
    result."""

    @property
    def last(self) -> int:
        """The number of the last round; one that is never reached if there is none."""
        return last_round(self.rounds)

    @property
    def open(self) -> bool:
        """Whether the experiment has no end."""
        return self.rounds == OPEN


class ModelSection(Section):
    base: str = "tiny"
    """`tiny` or `tiny-five` (both come with the package), a name that `fedse model get` knows, a
    folder with a Hugging Face model, or `owner/name@revision` on a model hub."""
    rank: Positive = 8
    """LoRA rank (paper: 8)."""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """LoRA alpha (paper: 16)."""
    targets: tuple[str, ...] = ("all-linear",)
    """Module suffixes that get an adapter; `all-linear` = every linear layer except the head."""
    since: Positive = 1
    """The first round with this base model and layout, which an amendment sets. The adapter begins
    anew in it; episodes of earlier rounds are learned from as texts, since this model did not
    sample their tokens."""


class RolloutSection(Section):
    episodes: Annotated[int, Field(ge=0)] = 32
    """Episodes each client plays per round (not stated in the paper); 0 = never explore."""
    every: Positive = 1
    """Play in every n-th round only, from the first after the warm start on (paper: 1); the rounds
    between learn from what is there."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Sampling temperature of exploration (paper: 1.0); 0 = greedy."""
    max_turns: Positive | None = None
    """Turn cap; unset = the environment's own."""
    context: Positive = 4096
    """Maximum length of an episode in tokens (paper: 4096); a longer one is truncated."""
    new_tokens: Positive = 64
    """Maximum length of one action in tokens."""
    batch: Positive = 64
    """Number of episodes that advance together in one generate call."""


SELECTS = one_of("success", "all", group=plugins.SELECTS)


class SelectSection(Section):
    type: Annotated[str, SELECTS] = "success"
    """Which episodes are learned from: `success` (paper), `all` (its ablation), the name of an
    installed variant, or `module:name`."""
    options: Options = {}  # noqa: RUF012 (pydantic copies it)
    """Settings for a `type` that is not built in, which checks them itself."""

    @model_validator(mode="after")
    def _allowed(self) -> "SelectSection":
        require_options("select.options", SELECTS.variant(self.type), self.options)
        return self


class BufferSection(Section):
    demonstrations: Annotated[int, Field(ge=0)] = 0
    """How many episodes of the environment's scripted expert the buffer starts with."""
    history: History = "all"
    """What is learned from besides this round's episodes: everything earlier (paper), the
    demonstrations, or nothing (`round`)."""
    pooled: bool = False
    """All clients learn from one shared buffer: the baseline with pooled data."""
    keep_played: bool = True
    """Keep every episode, including failed and held-out ones, for `fedse view`. They are not
    learned from, except by a `train.loss` that uses failed episodes of training tasks."""


class ClientSection(Section):
    name: Annotated[str, Field(pattern=CLIENT_NAME)]
    """Unique within the experiment."""
    env: str
    """A registered environment, or `module:Class`."""
    part: tuple[Positive, Positive] | None = None
    """[k, n]: this client's training tasks are every n-th, starting with the k-th; unset = all."""
    tasks: Positive | None = None
    """Learn from only this many of these tasks, evenly spaced; unset = all."""
    demonstrations: Annotated[int, Field(ge=0)] | None = None
    """`buffer.demonstrations` for this client only; unset = as set there."""
    joins: Positive = 1
    """The first round in which this client is asked to take part. If it is after the last one, the
    client only measures the last adapter: its success on a newcomer's first day."""
    roles: tuple[RoleName, ...] = ()
    """Of `roles.names`, those that act at this client; it has no vote on what the others learn.
    Empty = all."""
    options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Arguments passed to the environment."""


class Config(Section):
    """A whole experiment."""

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    roles: RolesSection = RolesSection()
    rollout: RolloutSection = RolloutSection()
    select: SelectSection = SelectSection()
    buffer: BufferSection = BufferSection()
    train: TrainSection = TrainSection()
    warmstart: WarmstartSection = WarmstartSection()
    aggregate: AggregateSection = AggregateSection()
    step: StepSection = StepSection()
    schedule: ScheduleSection = ScheduleSection()
    gate: GateSection = GateSection()
    splits: SplitsSection = SplitsSection()
    personal: PersonalSection = PersonalSection()
    eval: EvalSection = EvalSection()
    engine: EngineSection = EngineSection()
    trainer: TrainerSection = TrainerSection()
    storage: StorageSection = StorageSection()
    watchdog: WatchdogSection = WatchdogSection()
    redact: RedactSection = RedactSection()
    privacy: PrivacySection = PrivacySection()
    clients: Annotated[tuple[ClientSection, ...], Field(min_length=1)]

    @field_validator("clients")
    @classmethod
    def _unique(cls, clients: tuple[ClientSection, ...]) -> tuple[ClientSection, ...]:
        twice = sorted(name for name, n in Counter(c.name for c in clients).items() if n > 1)
        if twice:
            raise ValueError(f"client names must be unique, twice: {', '.join(twice)}")
        return clients

    @field_validator("clients")
    @classmethod
    def _parts(cls, clients: tuple[ClientSection, ...]) -> tuple[ClientSection, ...]:
        for client in clients:
            if client.part and client.part[0] > client.part[1]:
                raise ValueError(f"part of {client.name!r} must be [k, n] with k <= n")
        return clients

    @model_validator(mode="after")
    def _gated(self) -> "Config":
        if self.gate.episodes and not self.splits.validation:
            raise ValueError("gate.episodes needs tasks to decide with: set splits.validation")
        if self.gate.episodes and len(self.clients) <= 2 * self.gate.liars:
            raise ValueError(
                f"gate.liars = {self.gate.liars} needs more than {2 * self.gate.liars} clients"
            )
        return self

    @model_validator(mode="after")
    def _combinable(self) -> "Config":
        for reason in loosened(self):
            raise ValueError(reason)
        require_combinable(self)
        return self

    @cached_property
    def members(self) -> Mapping[str, ClientSection]:
        """The clients by name, in their order."""
        return {client.name: client for client in self.clients}

    def client(self, name: str) -> ClientSection:
        return self.members[name]

    def demonstrations(self, client: ClientSection) -> int:
        """Episodes of the scripted expert that this client's buffer starts with."""
        own = client.demonstrations
        return self.buffer.demonstrations if own is None else own

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; pydantic's would keep what was computed from the old ones."""
        copied = super().model_copy(update=update, deep=deep)
        for computed in ("members", "_agreed"):
            vars(copied).pop(computed, None)
        return copied

    def train_in(self, round: int) -> TrainSection:
        """How a client trains in this round: as in `train`, with the changes of the warm start."""
        warm = round <= self.warmstart.rounds
        return warm_training(self.train, self.warmstart) if warm else self.train

    def episodes_in(self, round: int) -> int:
        """Episodes that each client plays in this round."""
        after = round - self.warmstart.rounds - 1
        plays = after >= 0 and after % self.rollout.every == 0
        return self.rollout.episodes if plays else 0

    def arc_in(self, round: int) -> Arc:
        """How the learning rate falls in this round; it follows from the settings alone."""
        return arc_of(self.train_in, round, last=max(self.run.last, round))

    def agreed_digest(self) -> str:
        """Digest of everything that all members must agree on.

        Where the base model is stored, which hardware is used and how work is divided are up to
        each member. The adapter spec ensures that the models are the same. A setting that has its
        default is left out, so that a later release can have more of them.
        """
        return self._agreed

    @cached_property
    def _agreed(self) -> str:
        changed = self.agreed_settings(defaults=False)
        # Of a section in which only a member's own settings were changed, nothing is left.
        shared = {name: section for name, section in changed.items() if section}
        return digest_of([PROTOCOL, shared, sorted(client.name for client in self.clients)])

    def agreed_settings(self, *, defaults: bool) -> dict[str, Any]:
        """What all members must agree on besides their names, with or without the defaults."""
        return self.model_dump(
            mode="json",
            exclude_defaults=not defaults,
            exclude={
                "clients": True,
                **dict.fromkeys(OWN_SECTIONS, True),
                "run": {"workers"},
                "model": {"base"},
                "buffer": {"keep_played"},
            },
        )
