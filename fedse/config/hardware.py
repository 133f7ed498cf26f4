"""What a machine decides for itself: how it generates, trains and watches. Nobody agrees on it."""

from typing import Annotated, Literal

from pydantic import Field

from fedse.config.section import Positive, Section

OWN_SECTIONS = ("engine", "trainer", "storage", "watchdog", "redact", "privacy")
"""What a site decides alone: in its site.toml, never in what is agreed."""
LEAST_SILENCE = 120.0


class EngineSection(Section):
    """What generates the agent's replies here: this machine's own business, never agreed."""

    type: Literal["in-process", "vllm"] = "in-process"
    """`in-process` = transformers in this process, in lock step, the same bits every time;
    `vllm` = a vLLM server over HTTP, where no episode waits for another."""
    url: str | None = None
    """A vLLM server that you run, such as `http://127.0.0.1:8000`; unset = fedse starts one. Its
    API key, if it needs one, is taken from the environment variable FEDSE_ENGINE_KEY."""
    python: str | None = None
    """The interpreter of the environment vLLM is installed in; needed to start a server."""
    adapters: Literal["lora", "merged"] = "lora"
    """How an adapter gets into the server: as LoRA under its digest, or merged into the weights
    (one adapter at a time; several times faster on a CPU)."""
    memory: Annotated[float, Field(gt=0)] = 2.0
    """GB a server that fedse starts keeps free for the keys and values of open episodes."""
    arguments: tuple[str, ...] = ()
    """Further command-line arguments of a server that fedse starts; they replace its own, such as
    `--dtype bfloat16`."""
    folder: str | None = None
    """Where adapters are put for the server to read, under the same path on both sides; unset =
    the client's own folder."""
    in_flight: Positive = 64
    """Episodes that are played at the same time."""
    patience: Annotated[float, Field(gt=0)] = 600.0
    """Seconds to wait for one reply, for one answer of an environment (then the episode counts as
    broken), and for a server that starts or was killed."""
    sleep: bool = False
    """The server gives its GPU memory back while the trainer works (vLLM's sleep mode)."""


class WatchdogSection(Section):
    """When a process that gets nowhere is killed and started again: this machine's own business."""

    stopped: Annotated[float, Field(ge=0)] = 30.0
    """Seconds for which a process may be stopped by a signal, as by Ctrl-Z; 0 = for ever."""
    progress: Annotated[float, Field(ge=0)] | None = None
    """Seconds without progress while there is work: no move in any game, no reply of the engine, no
    step of the optimiser. Unset = half of `aggregate.deadline`, at least 120; 0 = for ever."""

    def silence(self, deadline: float) -> float:
        """Seconds without progress after which a process counts as hung; 0 = never."""
        return max(LEAST_SILENCE, deadline / 2) if self.progress is None else self.progress


class TrainerSection(Section):
    """What the adapter is trained on here: this machine's own business, never agreed."""

    device: str = "cpu"
    """`cpu`, `cuda`, `cuda:1`, ...; also where the in-process engine computes."""
    precision: Literal["float32", "bfloat16", "4bit"] = "float32"
    """Number format of the frozen base model; the adapter is always trained in float32. `4bit` is
    QLoRA's (bitsandbytes), only with `engine.type = "vllm"`: no adapter can be merged into it."""
    threads: Positive = 1
    """CPU threads of torch; part of what makes a digest reproducible."""
    max_tokens: Positive | None = None
    """Tokens computed at once, padding included: a batch with more is computed in pieces of similar
    length and the gradients are added up. Unset = a whole batch at once."""
    attention: str | None = None
    """How transformers computes attention in training: `eager`, `sdpa`, `flash_attention_2`, ...;
    unset = its own choice. In bfloat16 on a CPU `eager` is faster for short episodes."""
    checkpointing: bool = False
    """Compute activations again instead of keeping them: slower, with less memory."""
    processes: Positive = 1
    """Processes that train together on this machine; 1 = no process of its own."""
