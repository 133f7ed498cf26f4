"""Worker processes that can be stopped at any moment: a client's work resumes from its folder."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, NamedTuple, TypeVar

# The time a worker has to close the programs and files it opened; then it is killed.
GRACE_SECONDS = 1.0

T = TypeVar("T")


class _OwnProcesses(SpawnContext):
    """Starts processes as `spawn` does, and keeps a list of them."""

    def __init__(self) -> None:
        self.started: list[SpawnProcess] = []

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]
        process = SpawnProcess(*args, **options)
        self.started.append(process)
        return process


class Workers(NamedTuple):
    """Processes that work is given to."""

    executor: ProcessPoolExecutor

    def submit(self, act: Callable[..., T], *args: Any) -> "Future[T]":
        """`act(*args)` is done in one of the processes, as soon as one is free."""
        # It may start a process, which must not be left half started.
        with _interrupt_later():
            return self.executor.submit(_do, act, *args)


def nothing() -> None:
    """A worker that needs no preparation."""


@contextmanager
def worker_processes(
    count: int, prepare: Callable[..., None] = nothing, *arguments: Any
) -> Iterator[Workers]:
    """Up to `count` processes, each of which calls `prepare(*arguments)` first.

    At the end of the block all work is done. When the block is left by an exception, Ctrl-C
    included, no waiting work is begun and all processes are gone, within about GRACE_SECONDS.
    """
    context = _OwnProcesses()
    executor = ProcessPoolExecutor(count, context, _start, (prepare, *arguments))
    try:
        yield Workers(executor)
    except BaseException:
        _stop(context.started)
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Ctrl-C inside the block is handled at its end; a process started in it does not receive it.

    Only the main thread is ever interrupted, so in any other there is nothing to do.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    signals: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: signals.append((number, frame)))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if signals:
        handler(*signals[0])


def _stop(processes: list[SpawnProcess]) -> None:
    alive = [process for process in processes if process.pid is not None]
    for process in alive:
        process.terminate()
    ends = time.monotonic() + GRACE_SECONDS
    for process in alive:
        process.join(max(0.0, ends - time.monotonic()))
    for process in alive:
        if process.is_alive():
            process.kill()


def _start(prepare: Callable[..., None], *arguments: Any) -> None:
    # A terminal sends Ctrl-C to all of its processes; only the parent process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _do(act: Callable[..., T], *args: Any) -> T:
    try:
        return act(*args)
    except SystemExit:
        # The pool would take this for a result, and start the next piece of work.
        os._exit(1)
