"""What each machine decides for itself: how it generates, trains and watches its processes."""

from typing import Annotated, Literal

from pydantic import Field

from fedse.config.section import Positive, Section

OWN_SECTIONS = ("engine", "trainer", "storage", "watchdog", "redact", "privacy")
"""What each site decides alone, in its site.toml; it is not part of what is agreed."""
LEAST_SILENCE = 120.0


class EngineSection(Section):
    """What generates the agent's replies here; each machine decides this for itself."""

    type: Literal["in-process", "vllm"] = "in-process"
    """`in-process` = transformers in this process, in lock step, bit-identical every time; `vllm` =
    a vLLM server over HTTP, where no episode waits for another."""
    url: str | None = None
    """A vLLM server that you run, such as `http://127.0.0.1:8000` or `unix:/run/vllm/engine.sock`;
    unset = fedse starts one. Its API key, if it needs one, is taken from the environment variable
    FEDSE_ENGINE_KEY."""
    python: str | None = None
    """The interpreter of the environment in which vLLM is installed; needed to start a server."""
    adapters: Literal["lora", "merged"] = "lora"
    """How an adapter gets into the server: as LoRA under its digest, or merged into the weights
    (one adapter at a time; several times faster on a CPU)."""
    memory: Annotated[float, Field(gt=0)] = 2.0
    """GB that a server started by fedse reserves for the keys and values of open episodes."""
    arguments: tuple[str, ...] = ()
    """Additional command-line arguments for a server started by fedse; they replace its own, such
    as `--dtype bfloat16`."""
    folder: str | None = None
    """Folder in which the server finds adapters, at the same path on both sides; unset = the
    client's own folder."""
    in_flight: Positive = 64
    """Number of episodes played at the same time."""
    patience: Annotated[float, Field(gt=0)] = 600.0
    """Seconds to wait for one reply, for one answer from an environment (after that the episode
    counts as broken), and for a server that is starting or was killed."""
    shared_prefix: bool = False
    """`in-process`: what all games of a batch begin with, such as the rules, is computed once for
    all of them: faster for large models, but digests differ."""
    sleep: bool = False
    """The server frees its GPU memory while the trainer works (vLLM's sleep mode)."""


class WatchdogSection(Section):
    """When a process that makes no progress is killed and restarted; each machine decides for
    itself."""

    stopped: Annotated[float, Field(ge=0)] = 30.0
    """Seconds for which a process may be stopped by a signal, such as Ctrl-Z's; 0 = no limit."""
    progress: Annotated[float, Field(ge=0)] | None = None
    """Seconds without progress while there is work: no move in any game, no reply from the engine,
    no optimiser step. Unset = half of `aggregate.deadline`, at least 120; 0 = no limit."""

    start: Annotated[float, Field(ge=0)] = 120.0
    """Seconds without a line in its log in which a site's worker that is not ready yet, because it
    loads the model or plays demonstrations, is left alone; 0 = no limit."""

    def silence(self, deadline: float) -> float:
        """Seconds without progress after which a process counts as hung; 0 = never."""
        return max(LEAST_SILENCE, deadline / 2) if self.progress is None else self.progress


class TrainerSection(Section):
    """What the adapter is trained on here; each machine decides this for itself."""

    device: str = "cpu"
    """`cpu`, `cuda`, `cuda:1`, ...; the in-process engine uses it too."""
    precision: Literal["float32", "bfloat16", "4bit"] = "float32"
    """Number format of the frozen base model; the adapter is always trained in float32. `4bit` is
    QLoRA's format (bitsandbytes) and needs `engine.type = "vllm"`: no adapter can be merged into
    it."""
    threads: Positive = 1
    """CPU threads of torch; a different number can change digests."""
    max_tokens: Positive | None = None
    """Maximum tokens computed at once, including padding: a larger batch is computed in pieces of
    similar length, and the gradients are added up. Unset = a whole batch at once."""
    attention: str | None = None
    """How transformers computes attention in training: `eager`, `sdpa`, `flash_attention_2`, ...;
    unset = its default. In bfloat16 on a CPU, `eager` is faster for short episodes."""
    checkpointing: bool = False
    """Recompute activations instead of keeping them: slower, but needs less memory."""
    processes: Positive = 1
    """Number of processes that train together on this machine; 1 = no separate process."""
