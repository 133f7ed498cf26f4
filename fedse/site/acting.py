"""What acts at a site: the model in this process, or a server that several sites may share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedse.agent.by_role import ByRole
from fedse.agent.policy import Beat, Policy
from fedse.agent.prompt import Encoder
from fedse.blocks import bare_spec, block_adapter
from fedse.config.hardware import EngineSection
from fedse.config.requirements import require_installed
from fedse.config.schema import Config
from fedse.method.own_pace import rollout_at_own_pace
from fedse.method.rollout import Keep, rollout
from fedse.method.site import Play
from fedse.train.loss import loss_of
from fedse.types import Adapter, AdapterSpec

if TYPE_CHECKING:
    from fedse.engine.client import EngineClient
    from fedse.engine.loaded import ActingAdapters

Tell = Callable[[str], None]
"""Where it is said that the engine ended and was started again."""
MakePolicy = Callable[[Adapter, float], Policy]
"""Adapter and temperature -> something that acts."""


class OwnEngine(NamedTuple):
    """The model in this process; episodes advance in lock step."""

    config: Config

    def require(self) -> None:
        """Nothing to look for."""

    def ready(self, logs: Path, tell: Tell = lambda text: None) -> AbstractContextManager[None]:
        return nullcontext()

    def policies(self, base: Path, spec: AdapterSpec, encoder: Encoder, home: Path) -> MakePolicy:
        # Heavy and optional, so imported only where a model is really needed.
        from fedse.agent.hf import HFPolicy, engine_for

        place = self.config.trainer
        engine = engine_for(base, bare_spec(spec), device=place.device, precision=place.precision)
        make = partial(HFPolicy, engine, shared_prefix=self.config.engine.shared_prefix)
        return partial(_acts, make, self.config)

    def play(self, keep: Keep, beat: Beat) -> Play:
        return partial(rollout, keep=keep, beat=beat)

    def asleep(self) -> AbstractContextManager[None]:
        return nullcontext()


class ServedEngine(NamedTuple):
    """A vLLM server; no episode waits for another."""

    config: Config

    def require(self) -> None:
        """It runs already or can be started here; else an error says what is missing."""
        require_installed(self.config)
        if self.config.engine.url is None:
            from fedse.engine.server import interpreter

            interpreter(self.config.engine)

    def ready(self, logs: Path, tell: Tell = lambda text: None) -> AbstractContextManager[None]:
        """It answers meanwhile; if it dies it is started again, and `tell` is told."""
        require_installed(self.config)
        from fedse.engine.server import engine_if_needed

        return engine_if_needed(self.config, logs, tell=tell)

    def policies(self, base: Path, spec: AdapterSpec, encoder: Encoder, home: Path) -> MakePolicy:
        require_installed(self.config)
        from fedse.engine.policy import ServedPolicy

        folder = Path(self.config.engine.folder or home / "engine")
        adapters = _shared_adapters(self.config.engine, base, folder, len(spec.blocks) or 1)
        return partial(_acts, partial(ServedPolicy, adapters, encoder), self.config)

    def play(self, keep: Keep, beat: Beat) -> Play:
        settings = self.config.engine
        own_pace = partial(rollout_at_own_pace, keep=keep, in_flight=settings.in_flight)
        return partial(own_pace, step_seconds=settings.patience)

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """The GPU is free for the trainer meanwhile, if `engine.sleep` says so."""
        if not self.config.engine.sleep:
            yield
            return
        client = _client(self.config.engine)
        client.sleep()
        try:
            yield
        finally:
            client.wake()


ActingEngine = OwnEngine | ServedEngine
ENGINES: Mapping[str, type[ActingEngine]] = {"in-process": OwnEngine, "vllm": ServedEngine}
"""By `engine.type`."""


def engine_of(config: Config) -> ActingEngine:
    """What generates the replies of an experiment on this machine."""
    return ENGINES[config.engine.type](config)


def _acts(
    make: Callable[..., Policy], config: Config, adapter: Adapter, temperature: float
) -> Policy:
    room = {"context": config.rollout.context, "new_tokens": config.rollout.new_tokens}
    log_chances = temperature > 0 and loss_of(config.train).origins
    make = partial(make, temperature=temperature, log_chances=log_chances, **room)
    if not adapter.spec.blocks:
        return make(adapter)
    parts = {block: make(block_adapter(adapter, block)) for block in adapter.spec.blocks}
    return ByRole(adapter.digest, parts, config.roles.block_of)


@lru_cache(maxsize=8)
def _client(settings: EngineSection) -> "EngineClient":
    from fedse.engine.client import EngineClient

    return EngineClient(settings)


@lru_cache(maxsize=8)
def _shared_adapters(
    settings: EngineSection, base: Path, folder: Path, parts: int
) -> "ActingAdapters":
    """One for all clients of this process that use the same folder."""
    from fedse.engine.ways_in import acting_adapters

    return acting_adapters(_client(settings), settings, base, folder, parts=parts)
