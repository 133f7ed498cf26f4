"""One TOML file describes one experiment; every key is typed, unknown keys are refused.

Sections are named after the stages of the method. What all clients must have in common is what
`Config.agreed_digest` covers; a client's own `[[clients]]` entry never comes from the server.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from fedse import plugins
from fedse.config.hardware import EngineSection, TrainerSection
from fedse.config.judging import EvalSection, GateSection, PersonalSection, SplitsSection
from fedse.config.section import Fraction, Positive, Section, one_of
from fedse.config.training import (
    TrainSection,
    WarmstartSection,
    arc_of,
    require_one_warm_length,
    warm_training,
)
from fedse.course import Arc
from fedse.types import CLIENT_NAME, digest_of

History = Literal["all", "demonstrations", "round"]


class RunSection(Section):
    name: Annotated[str, Field(pattern=CLIENT_NAME)] = "run"
    """Names the experiment; clients key their finished work by it."""
    rounds: Annotated[int, Field(ge=0)] = 20
    """Federated rounds (paper: 20)."""
    seed: int = 0
    """Every random choice of the experiment follows from it."""
    workers: Positive = 1
    """Processes the local driver spreads the clients over; the result does not depend on it."""


class ModelSection(Section):
    base: str = "tiny"
    """`tiny`, `tiny-five` (both come with the package), a name `fedse model get` knows, a folder
    with a Hugging Face model, or `owner/name@revision` of a model hub."""
    rank: Positive = 8
    """LoRA rank (paper: 8)."""
    alpha: Annotated[float, Field(gt=0)] = 16.0
    """LoRA alpha (paper: 16)."""
    targets: tuple[str, ...] = ("all-linear",)
    """Module suffixes that get an adapter; `all-linear` = every linear layer but the head."""


class RolloutSection(Section):
    episodes: Annotated[int, Field(ge=0)] = 32
    """Episodes each client plays per round (the paper does not say); 0 = never explore."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """Sampling temperature of exploration (paper: 1.0); 0 = greedy."""
    max_turns: Positive | None = None
    """Turn cap; unset = the environment's own."""
    context: Positive = 4096
    """Tokens an episode may fill (paper: 4096); a longer one is truncated."""
    new_tokens: Positive = 64
    """Tokens one action may take."""
    batch: Positive = 64
    """Episodes that advance together in one generate call."""
    max_broken: Fraction = 0.5
    """Share of broken episodes above which the client's round stops with the first cause."""


class SelectSection(Section):
    type: Annotated[
        str, one_of("success", "all", "frontier", "hindsight", group=plugins.SELECTS)
    ] = "success"
    """Which episodes are learned from (paper: success; all = its ablation). `frontier`: successes
    in tasks that are neither always nor never won. `hindsight`: successes, and other episodes under
    a goal they did reach."""
    tries: Positive = 2
    """`frontier`: games of a task after which it can count as always won."""
    per_task: Positive | None = None
    """`frontier`: different episodes of one task kept over all rounds; unset = all."""


class BufferSection(Section):
    demonstrations: Annotated[int, Field(ge=0)] = 0
    """Episodes of the environment's scripted expert the buffer starts with."""
    history: History = "all"
    """What is learned from beside this round's episodes: everything before (paper), the
    demonstrations, or nothing (`round`)."""
    pooled: bool = False
    """All clients learn from one common buffer: what federation avoids, and is compared with."""
    keep_played: bool = True
    """Keep every episode, also failed and held-out ones, for `fedse view`. Nothing learns from
    them, but `train.loss = "kto"` from the failed ones of training tasks."""


class AggregateSection(Section):
    type: Annotated[str, one_of("mean", "weighted", "product", group=plugins.AGGREGATES)] = "mean"
    """How adapters are merged (paper: unweighted mean; weighted by buffer = its ablation);
    `product` = the mean of the products B A, cut back to the agreed rank."""
    clip: Literal["none", "median"] = "median"
    """Scale updates longer than the median one down to it; `none` = the paper's plain mean."""
    step: Annotated[float, Field(gt=0)] = 1.0
    """How far to go towards the mean of the updates (paper: 1); above 1 goes beyond it."""
    step_rule: Literal["fixed", "fedexp"] = "fixed"
    """`fedexp` = as far as FedExP finds from the lengths of the updates, no less than `step`."""
    step_max: Annotated[float, Field(gt=0)] = 10.0
    """The longest step that `fedexp` may find."""
    outer: Literal["none", "nesterov", "adam"] = "none"
    """An optimiser that takes the mean update for its gradient: Nesterov's momentum (DiLoCo) or
    Adam (FedAdam)."""
    outer_lr: Annotated[float, Field(gt=0)] | None = None
    """Its learning rate; unset = 0.7 for `nesterov`, 0.001 for `adam`."""
    outer_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the earlier updates that it keeps; Adam's beta1."""
    outer_decay: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the earlier squares that Adam keeps; its beta2."""
    outer_floor: Annotated[float, Field(gt=0)] = 1e-3
    """What Adam adds to the root of the squares; the larger, the less it adapts."""
    max_norm: Annotated[float, Field(gt=0)] = 1e4
    """A reply whose A or B factors are longer than this is excluded."""
    strikes: Annotated[int, Field(ge=0)] = 3
    """Rounds with a rejected reply after which a client is quarantined; 0 = never."""
    min_clients: Positive = 1
    """Fewer valid replies than this end the run; votes and abstentions both count."""
    goal: Annotated[int, Field(ge=0)] = 0
    """Valid replies that close a round at once; 0 = all. Of more than 20 members only a third more
    than this are asked, drawn again each round; a reply that comes later is never averaged."""
    deadline: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds a round waits for replies (Flower driver)."""
    rejoin: Annotated[float, Field(ge=0)] = 90.0
    """Seconds a round waits for a site that answered the last one and is gone now."""

    @model_validator(mode="after")
    def _reachable(self) -> "AggregateSection":
        if 0 < self.goal < self.min_clients:
            raise ValueError(f"goal {self.goal} is less than min_clients {self.min_clients}")
        return self


class ClientSection(Section):
    name: Annotated[str, Field(pattern=CLIENT_NAME)]
    """Unique within the experiment."""
    env: str
    """A registered environment, or `module:Class`."""
    part: tuple[Positive, Positive] | None = None
    """[k, n]: this client's training tasks are every n-th from the k-th on; unset = all."""
    tasks: Positive | None = None
    """Learn from so many of these tasks only, evenly spread; unset = from all."""
    demonstrations: Annotated[int, Field(ge=0)] | None = None
    """As `buffer.demonstrations`, for this client alone; unset = as there."""
    joins: Positive = 1
    """The first round in which this client is asked to take part."""
    options: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Arguments of the environment."""
    rank: Positive | None = None
    """Train at this LoRA rank, at most model.rank, to save memory here; unset = model.rank."""
    step_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Seconds the environment may take for one answer; then the episode counts as broken. Only
    with `engine.type = "vllm"`, where environments run in threads of their own."""


class Config(Section):
    """A whole experiment."""

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    rollout: RolloutSection = RolloutSection()
    select: SelectSection = SelectSection()
    buffer: BufferSection = BufferSection()
    train: TrainSection = TrainSection()
    warmstart: WarmstartSection = WarmstartSection()
    aggregate: AggregateSection = AggregateSection()
    gate: GateSection = GateSection()
    splits: SplitsSection = SplitsSection()
    personal: PersonalSection = PersonalSection()
    eval: EvalSection = EvalSection()
    engine: EngineSection = EngineSection()
    trainer: TrainerSection = TrainerSection()
    clients: Annotated[tuple[ClientSection, ...], Field(min_length=1)]

    @field_validator("clients")
    @classmethod
    def _unique(cls, clients: tuple[ClientSection, ...]) -> tuple[ClientSection, ...]:
        names = [client.name for client in clients]
        twice = sorted({name for name in names if names.count(name) > 1})
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
    def _mergeable(self) -> "Config":
        if self.trainer.precision == "4bit" and self.engine.type == "in-process":
            raise ValueError('trainer.precision = "4bit" needs engine.type = "vllm"')
        return self

    @model_validator(mode="after")
    def _combinable(self) -> "Config":
        product, outer = self.aggregate.type == "product", self.aggregate.outer != "none"
        factors, ranks = self.train.factors, [c.rank for c in self.clients if c.rank]
        refused = {
            'train.factors = "a" learns nothing, because B begins at zero': factors == "a",
            'aggregate.type = "product" needs train.factors = "both"': product
            and factors != "both",
            'aggregate.type = "product" needs aggregate.outer = "none"': product and outer,
            'train.factors = "alternate" needs aggregate.outer = "none", which would move the '
            "factor that rests": factors == "alternate" and outer,
            'personal.form = "beside" needs train.factors = "both"': self.personal.form == "beside"
            and factors != "both",
            'clients.rank needs aggregate.type = "product"': bool(ranks) and not product,
            f"clients.rank must be <= model.rank = {self.model.rank}": max(ranks, default=0)
            > self.model.rank,
        }
        if any(refused.values()):
            raise ValueError(next(reason for reason, found in refused.items() if found))
        return self

    @model_validator(mode="after")
    def _trainable(self) -> "Config":
        require_one_warm_length(self.train, self.warmstart)
        return self

    @model_validator(mode="after")
    def _failures_kept(self) -> "Config":
        if self.train.loss == "kto" and not self.buffer.keep_played:
            raise ValueError('train.loss = "kto" needs buffer.keep_played = true')
        return self

    def client(self, name: str) -> ClientSection:
        return next(client for client in self.clients if client.name == name)

    def train_in(self, round: int) -> TrainSection:
        """How a client trains in this round: as in `train`, but for what the warm start changes.

        There is no failure to learn from before the first exploration, so the loss is `sft`.
        """
        train = self.train
        if round <= self.warmstart.rounds:
            train = warm_training(train, self.warmstart).model_copy(update={"loss": "sft"})
        if train.factors == "alternate":
            # B first: as long as it is zero, A has no gradient.
            return train.model_copy(update={"factors": "b" if round % 2 else "a"})
        return train

    def arc_in(self, round: int) -> Arc:
        """How the learning rate falls in this round; it follows from the settings alone."""
        last = max(self.run.rounds, round)
        return arc_of([self.train_in(index) for index in range(1, last + 1)], round)

    def agreed_digest(self) -> str:
        """Digest of what all members must have agreed on.

        Where the base model lies, which hardware computes and how work is spread are each member's
        own; that the models are the same is the adapter spec's business.
        """
        shared = self.model_dump(
            mode="json",
            exclude={
                "clients": True,
                "engine": True,
                "trainer": True,
                "run": {"workers"},
                "model": {"base"},
                "buffer": {"keep_played"},
            },
        )
        return digest_of([shared, sorted(client.name for client in self.clients)])
