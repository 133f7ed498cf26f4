"""What acts at a site: the model in this process, or a server that several sites may share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedse.agent.policy import Policy
from fedse.agent.prompt import Encoder
from fedse.config.hardware import EngineSection
from fedse.config.schema import Config
from fedse.errors import require_packages
from fedse.types import Adapter, AdapterSpec

if TYPE_CHECKING:
    from fedse.engine.client import EngineClient
    from fedse.engine.loaded import ActingAdapters

MakePolicy = Callable[[Adapter, float], Policy]
"""Adapter and temperature -> something that acts."""


def policy_maker(
    config: Config, base: Path, spec: AdapterSpec, encoder: Encoder, home: Path
) -> MakePolicy:
    """Makes policies as `config.engine` says."""
    settings, rollout = config.engine, config.rollout
    if settings.type == "in-process":
        from fedse.agent.hf import HFPolicy, engine_for

        place = config.trainer
        engine = engine_for(base, spec, device=place.device, precision=place.precision)

        def in_process(adapter: Adapter, temperature: float) -> Policy:
            return HFPolicy(
                engine,
                adapter,
                temperature=temperature,
                context=rollout.context,
                new_tokens=rollout.new_tokens,
            )

        return in_process

    require_packages("engine.type = 'vllm'", "httpx", "psutil", extra="engine")
    from fedse.engine.policy import ServedPolicy

    acting = _shared_adapters(settings, base, Path(settings.folder or home / "engine"))

    def served(adapter: Adapter, temperature: float) -> Policy:
        return ServedPolicy(
            acting,
            encoder,
            adapter,
            temperature=temperature,
            context=rollout.context,
            new_tokens=rollout.new_tokens,
        )

    return served


@contextmanager
def engine_asleep(settings: EngineSection) -> Iterator[None]:
    """The GPU is free for the trainer, if the server shares it (`engine.sleep`)."""
    if settings.type == "in-process" or not settings.sleep:
        yield
        return
    client = _client(settings)
    client.sleep()
    try:
        yield
    finally:
        client.wake()


@lru_cache(maxsize=8)
def _client(settings: EngineSection) -> "EngineClient":
    from fedse.engine.client import EngineClient

    return EngineClient(settings)


@lru_cache(maxsize=8)
def _shared_adapters(settings: EngineSection, base: Path, folder: Path) -> "ActingAdapters":
    """One for all clients of this process that use the same folder."""
    return acting_adapters(_client(settings), settings, base, folder)


def acting_adapters(
    client: "EngineClient", settings: EngineSection, base: Path, folder: Path
) -> "ActingAdapters":
    """How adapters get into the server, as the settings say."""
    from fedse.engine.loaded import LoraAdapters, MergedAdapters

    if settings.adapters == "lora":
        return LoraAdapters(client, folder)
    from fedse.engine.merged import write_merged

    return MergedAdapters(client, folder, partial(write_merged, base))
