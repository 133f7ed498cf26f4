"""The two ways in which adapters get into a server, and what each needs of it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fedse.adapters.peft_folder import vllm_rank
from fedse.config.hardware import EngineSection
from fedse.engine.client import EngineClient
from fedse.engine.loaded import KEPT, ActingAdapters, LoraAdapters, MergedAdapters


class WayIn(NamedTuple):
    """One value of `engine.adapters`."""

    adapters: Callable[[EngineClient, Path, Path, int], ActingAdapters]
    """Server, folder for what it is to read, base model, and how many parts an adapter has that
    are adapters of their own there -> the adapters in the server."""
    arguments: Callable[[int, int], list[str]]
    """What a server for adapters of this rank, with so many parts, is started with."""
    needs: str
    """What a server that somebody else starts must be started with."""


def acting_adapters(
    client: EngineClient, settings: EngineSection, base: Path, folder: Path, *, parts: int = 1
) -> ActingAdapters:
    """The adapters in the server, which get there as the settings say."""
    return WAYS_IN[settings.adapters].adapters(client, folder, base, parts)


def _lora_arguments(rank: int, parts: int) -> list[str]:
    lora = ["--enable-lora", "--max-lora-rank", str(vllm_rank(rank))]
    return [*lora, "--max-loras", str(2 * parts), "--max-cpu-loras", str(4 * parts)]


def _merged(client: EngineClient, folder: Path, base: Path, parts: int) -> ActingAdapters:
    # Heavy and optional, so imported only where weights are really merged.
    from fedse.engine.merged import write_merged

    return MergedAdapters(client, folder, partial(write_merged, base))


WAYS_IN: Mapping[str, WayIn] = {
    "lora": WayIn(
        lambda client, folder, base, parts: LoraAdapters(client, folder, kept=KEPT * parts),
        _lora_arguments,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora",
    ),
    "merged": WayIn(
        _merged,
        lambda rank, parts: ["--enable-scale-out"],
        "VLLM_SERVER_DEV_MODE=1 and --enable-scale-out",
    ),
}
