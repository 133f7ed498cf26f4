"""`fedse engine`: start the server that generates replies, or check one that runs."""

import json as json_format
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from fedse.adapters.base import base_path, spec_of
from fedse.blocks import bare_spec
from fedse.cli.display import Json, print_aside
from fedse.config.file import load_config
from fedse.config.schema import Config
from fedse.errors import ConfigError, MachineError, require_packages

if TYPE_CHECKING:
    from fedse.engine.check import EngineCheck

app = App(name="engine", help_format="plaintext", help_epilogue="")

Experiment = Annotated[
    Path, Parameter(help="The experiment: its [engine], [model] and [rollout] decide.")
]


@app.command
def start(
    experiment: Experiment,
    /,
    *,
    folder: Annotated[
        Path, Parameter(help="The folder of its socket and its output, for your user alone.")
    ] = Path("engine"),
) -> None:
    """Start a vLLM server for this experiment and keep it running until Ctrl-C.

    It prints its address, which engine.url takes: a Unix socket, because whoever reaches the server
    can replace its weights. engine.python is the interpreter of the environment in which vLLM is
    installed. If the server dies, it is restarted.

    Example: fedse engine start my.toml --folder engine
    """
    config = _served(experiment)
    from fedse.engine.server import running_engine

    print_aside(f"starting; output in {folder}")
    base = base_path(config.model.base)
    try:
        with running_engine(config, base, folder, tell=print_aside, folder=folder) as url:
            print(url, flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        print_aside("stopped")


@app.command
def check(
    experiment: Experiment,
    /,
    *,
    url: Annotated[str | None, Parameter(help="The server's address; default: engine.url.")] = None,
    json: Json = False,
) -> None:
    """Check a running server: its model, its tokens, and that adapters take effect.

    It loads two adapters into the server and unloads them again. The exit code is 3 if a check
    fails.

    Example: fedse engine check my.toml --url unix:/home/me/engine/engine.sock
    """
    config = _served(experiment)
    if url is not None:
        own = config.engine.model_copy(update={"url": url})
        config = config.model_copy(update={"engine": own})
    found = list(_checks(config, tell=not json))
    if json:
        print(json_format.dumps([one._asdict() for one in found]))
    if not all(one.ok for one in found):
        raise MachineError("the engine is not ready for this experiment")


def _checks(config: Config, *, tell: bool) -> "Iterator[EngineCheck]":
    from fedse.agent.tokens import load_encoder
    from fedse.engine.check import check_engine, own_logprobs, probe
    from fedse.engine.client import EngineClient
    from fedse.engine.ways_in import acting_adapters

    base, spec = base_path(config.model.base), bare_spec(spec_of(config))
    encoder = load_encoder(base)
    expected = own_logprobs(base, spec, probe(encoder))
    with (
        tempfile.TemporaryDirectory(prefix="fedse-engine-") as folder,
        closing(EngineClient(config.engine)) as client,
    ):
        place = Path(config.engine.folder or folder)
        acting = acting_adapters(client, config.engine, base, place)
        for one in check_engine(config, spec, encoder, client, acting, expected):
            if tell:
                print(f"{'ok  ' if one.ok else 'FAIL'}  {one.what}")
                print(f"      fix: {one.fix}\n" if one.fix else "", end="")
            yield one
        if client.answers():
            acting.take_out()


def _served(experiment: Path) -> Config:
    config = load_config(experiment)
    if config.engine.type != "vllm":
        raise ConfigError(
            f"{experiment} has engine.type = {config.engine.type!r}: there is no server",
            hint='set type = "vllm" in its [engine] section',
        )
    require_packages("fedse engine", "httpx", "psutil", extra="engine")
    return config
