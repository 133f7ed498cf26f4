"""A fit in several processes: started here, awaited, and nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedse.config.hardware import TrainerSection
from fedse.errors import ConfigError, TrainError
from fedse.train.order import FitFolder, FitOrder
from fedse.types import Adapter, Fitted
from fedse.waiting import wait_until

SHOWN_CHARACTERS = 2000
"""Of the stderr of a process that failed."""
PAUSE_SECONDS = 0.02

Started = Sequence["subprocess.Popen[bytes]"]


def fit_in_processes(
    order: FitOrder,
    start: Adapter,
    *,
    moments: bytes | None = None,
    beat: Callable[[], None] = lambda: None,
) -> Fitted:
    """The adapter after the fit `order` describes, by `order.place.processes` processes together.

    They meet in a file and talk over the loopback interface. `accelerate launch` is not used for
    this: the store of its rendezvous listens on all interfaces of the machine. `beat` is called as
    long as they run.
    """
    if ":" in order.place.device:
        raise ConfigError(
            f"trainer.device = {order.place.device!r} is one device, trainer.processes is "
            f"{order.place.processes}",
            hint=f"--set trainer.device={order.place.device.partition(':')[0]}",
        )
    with TemporaryDirectory(prefix="fedse-fit-") as name:
        folder = FitFolder(Path(name))
        folder.write_order(order, start, moments=moments)
        with _started(folder, order.place) as processes:
            wait_until(
                lambda: _is_over(processes), seconds=None, every=PAUSE_SECONDS, meanwhile=beat
            )
            failed = [i for i, process in enumerate(processes) if process.returncode]
        if failed:
            raise _error(folder, failed[0], processes[failed[0]].returncode)
        return folder.read_fitted(order.spec)


@contextmanager
def _started(folder: FitFolder, place: TrainerSection) -> Iterator[Started]:
    """The processes run; those that still do when this ends are killed."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for index in range(place.processes):
            with folder.stderr(index).open("wb") as stderr:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "fedse.train.job", str(folder.path)],
                        env=_environment(index, place),
                        # Nothing is written: a process ends when its end of the pipe is closed.
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=stderr,
                    )
                )
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            if process.stdin:
                process.stdin.close()


def _environment(index: int, place: TrainerSection) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(index),
        "LOCAL_RANK": str(index),
        "WORLD_SIZE": str(place.processes),
        "LOCAL_WORLD_SIZE": str(place.processes),
        "OMP_NUM_THREADS": str(place.threads),
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }


def _is_over(processes: Started) -> bool:
    """All have ended, or one has failed, so that the others would wait without end."""
    codes = [process.poll() for process in processes]
    return None not in codes or any(codes)


def _error(folder: FitFolder, index: int, code: int) -> TrainError:
    refusals = folder.refusals()
    if refusals:
        return TrainError(refusals[0].message, hint=refusals[0].hint)
    told = folder.stderr(index).read_text(errors="replace").strip()[-SHOWN_CHARACTERS:]
    return TrainError(
        f"process {index} of the trainer ended with exit code {code}: {told}",
        hint="--set trainer.processes=1 trains in this process",
    )
