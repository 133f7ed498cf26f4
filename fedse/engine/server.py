"""Start a vLLM server in its own process and its own Python environment, and keep it running.

It answers at a Unix socket that only this user can reach, and no route of it is at a port: whoever
reaches one can replace its weights. A key would not do, because vLLM 0.32 asks for it only below
/v1, /v2, /inference and /cohere.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.adapters.base import base_path
from fedse.config.hardware import EngineSection
from fedse.config.schema import Config
from fedse.engine.client import UNIX, URL_VARIABLE, EngineClient
from fedse.engine.ways_in import WAYS_IN
from fedse.errors import ConfigError, FedSEError, MachineError, boundary
from fedse.processes.group import Processes, Started
from fedse.processes.restart import RestartingProcess, Tell
from fedse.processes.socket_path import require_socket_path
from fedse.waiting import wait_until

LOOK_SECONDS = 0.5
MODULE = "vllm.entrypoints.openai.api_server"
BARE = "base"
"""The server's name for the model without an adapter."""


def server_command(config: Config, base: Path, socket: Path) -> list[str]:
    """The command line of a server for this experiment's base model and adapters."""
    settings, rollout = config.engine, config.rollout
    command = [interpreter(settings), "-m", MODULE, "--model", str(base)]
    command += ["--served-model-name", BARE, "--uds", str(socket)]
    command += ["--dtype", "bfloat16", "--max-model-len", str(rollout.context)]
    command += ["--max-num-seqs", str(settings.in_flight)]
    command += ["--kv-cache-memory-bytes", str(round(settings.memory * 1e9))]
    # The sampling defaults in the model's folder are not part of the experiment.
    command += ["--generation-config", "vllm", "--uvicorn-log-level", "warning"]
    command += WAYS_IN[settings.adapters].arguments(
        config.model.rank, len(config.roles.blocks) or 1
    )
    if config.trainer.device == "cpu":
        command += ["--enforce-eager"]
    if settings.sleep:
        command += ["--enable-sleep-mode"]
    return [*command, *settings.arguments]


def server_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The server's environment variables; usage statistics are off."""
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "VLLM_CPU_OMP_THREADS_BIND": given.get("VLLM_CPU_OMP_THREADS_BIND", cores),
        # Where the parts of the server find each other.
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        # The routes that replace weights and put the server to sleep.
        "VLLM_SERVER_DEV_MODE": "1",
    }
    own_python = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {k: v for k, v in given.items() if k not in own_python} | variables


@contextmanager
def engine_if_needed(config: Config, logs: Path, *, tell: Tell) -> Iterator[None]:
    """The engine of this experiment is ready: a running one, or one started here."""
    if config.engine.url or os.environ.get(URL_VARIABLE):
        yield
        return
    with running_engine(config, base_path(config.model.base), logs, tell=tell):
        yield


@contextmanager
def running_engine(
    config: Config, base: Path, logs: Path, *, tell: Tell, folder: Path | None = None
) -> Iterator[str]:
    """A server for this experiment answers at the yielded address, and is restarted if it dies.

    Its socket is in `folder`, which no other user can enter from now on; None = in a new one.
    Processes started meanwhile find it too. No process of it is left afterwards.
    """
    before = os.environ.get(URL_VARIABLE)
    place = nullcontext(folder) if folder else TemporaryDirectory(prefix="fedse-engine-")
    with place as kept_in, Processes(logs, server_environment(os.environ)) as processes:
        socket = own_socket(Path(kept_in))
        command, url = server_command(config, base, socket), f"{UNIX}{socket}"
        processes.end_orphans()

        def start() -> Started:
            # vLLM does not take the place of the socket of one that was killed.
            socket.unlink(missing_ok=True)
            return processes.start("engine", command)

        kept = _Kept(processes, start, url, config, tell)
        try:
            kept.start()
            os.environ[URL_VARIABLE] = url
            yield url
        finally:
            kept.stop()
            os.environ.pop(URL_VARIABLE, None)
            if before is not None:
                os.environ[URL_VARIABLE] = before


def own_socket(folder: Path) -> Path:
    """Where to listen in `folder`, which is this user's alone."""
    socket = folder.absolute() / "engine.sock"
    require_socket_path(socket)
    with boundary(MachineError, f"socket folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    return socket


class _Kept:
    """A thread that watches the server."""

    def __init__(
        self,
        processes: Processes,
        start: Callable[[], Started],
        url: str,
        config: Config,
        tell: Tell,
    ) -> None:
        settings = config.engine.model_copy(update={"url": url})
        self._client, self._patience = EngineClient(settings), settings.patience
        self._process = RestartingProcess(
            processes, start, tell=tell, ready=self._client.answers, hint="see its log"
        )
        self._ending, self._error = threading.Event(), list[FedSEError]()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        """The server is ready; it is an error if it ends three times before that."""
        self._thread.start()
        ready = wait_until(self._is_up, seconds=self._patience, every=LOOK_SECONDS)
        if not ready:
            raise MachineError(
                f"the engine was not ready after engine.patience = {self._patience:g} s",
                hint="see engine.log, or give it more time: --set engine.patience=1800",
            )

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self._client.close()

    def _is_up(self) -> bool:
        if self._error:
            raise self._error[0]
        return self._client.answers()

    def _keep(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            try:
                self._process.look(time.monotonic())
            except FedSEError as error:
                self._error.append(error)
                return


def interpreter(settings: EngineSection) -> str:
    """The interpreter that starts the server, or an error if there is none."""
    if settings.python is None:
        raise ConfigError(
            "engine.type = 'vllm' needs engine.url (a server that you run) or engine.python (the "
            "interpreter of the environment vLLM is installed in)",
            hint="fedse config explain engine",
        )
    path = shutil.which(os.path.expanduser(settings.python))
    if path is None:
        raise MachineError(
            f"engine.python = {settings.python!r} cannot be started: it is not a program",
            hint="fedse config explain engine.python",
        )
    return path
