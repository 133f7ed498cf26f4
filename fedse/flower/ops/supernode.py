"""Flower's SuperNode in a process that lives only while the SuperNode works.

Flower's own program logs an error of its main loop, returns, and stays alive beside its HTTP
thread; it does not notice when its heartbeat thread or its SuperExec dies, or when it is asked and
nothing comes. Here each of these ends the process.
"""

import faulthandler
import os
import sys
import threading
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from fedse.errors import FedSEError
from fedse.flower.patches.bundle_guard import guard_reading
from fedse.flower.patches.line_watch import LineWatch
from fedse.flower.patches.presence import hasten_heartbeats, remember
from fedse.flower.patches.put_off import STORE, put_off_class
from fedse.flower.patches.runtime_socket import serve_at
from fedse.flower.patches.unanswered import AnswerWatch

BROKEN = 1
UNANSWERED = 75
"""Exit code of one that was asked and got nothing from its app."""
IDLE = 76
"""Exit code of one that no longer asks for work."""
# Between two looks whether an answer is overdue.
LOOK_SECONDS = 5.0
# Longer than Flower takes to end at a signal (5 s), which ends its SuperExec as well.
CHILD_SECONDS = 6.0


def main(argv: Sequence[str]) -> NoReturn:
    """Runs flower-supernode with its own arguments; those that are named here are ours."""
    parser = ArgumentParser(
        "python -m fedse.flower.ops.supernode", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--presence", type=Path, help="number of the node, and whether it left")
    parser.add_argument("--line", type=Path, help="whether the server is reached, and why not")
    parser.add_argument("--runtime-socket", type=Path, help="where the app asks; else at a port")
    parser.add_argument("--many-sites", action="store_true", help="heartbeats at Flower's pace")
    own, flowers = parser.parse_known_args(argv)
    sys.argv = ["flower-supernode", *flowers]

    def serve() -> None:
        put_off_class(STORE)
        if own.presence:
            remember(own.presence)
        if own.line:
            LineWatch(own.line, clock=time.monotonic).follow()
        if own.runtime_socket:
            serve_at(own.runtime_socket)
        guard_reading()
        if not own.many_sites:
            hasten_heartbeats()
        watch = AnswerWatch(time.monotonic)
        watch.follow()
        threading.Thread(target=_end_unanswered, args=(watch,), daemon=True).start()
        import_module("flwr.supernode.cli").flower_supernode()

    end_with(serve)


def end_with(work: Callable[[], object]) -> NoReturn:
    """Does `work` in this thread; the process ends with it, with any thread and with any child.

    The exit code is the one `work` exits with; if it merely returns, that counts as broken.
    """
    threading.excepthook = _end_with_thread
    threading.Thread(target=_end_with_child, daemon=True).start()
    code: object = BROKEN
    try:
        work()
        print("the SuperNode stopped working", file=sys.stderr)
    except SystemExit as exit_request:
        code = exit_request.code or 0
    except FedSEError as error:
        print(f"{error}\n  next: {error.hint}", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    _end(code if isinstance(code, int) else BROKEN)


def _end_with_thread(broken: threading.ExceptHookArgs) -> None:
    if broken.exc_type is SystemExit:
        return
    traceback.print_exception(broken.exc_type, broken.exc_value, broken.exc_traceback)
    name = broken.thread.name if broken.thread else "a thread"
    print(f"{name} broke, and with it the SuperNode", file=sys.stderr)
    _end(BROKEN)


def _end_with_child() -> None:
    """A child that ended and that nobody collects was the SuperExec: no task would start again."""
    if not hasattr(os, "waitid"):
        return
    before = None
    while True:
        time.sleep(CHILD_SECONDS)
        try:
            # Left for its parent to collect, so a short command of Flower's own is not counted.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            child = None
        ended = child.si_pid if child else None
        if ended is not None and ended == before:
            print(f"child {ended} ended, and with it the SuperNode", file=sys.stderr)
            _end(BROKEN)
        before = ended


def _end_unanswered(watch: AnswerWatch) -> None:
    while not (problem := watch.problem()) and not (idle := watch.idle()):
        time.sleep(LOOK_SECONDS)
    if problem:
        print(f"{problem}: another process may have taken the task", file=sys.stderr)
        _end(UNANSWERED)
    print(f"{idle}: it hangs, or no server can be reached", file=sys.stderr)
    # To stderr: where each thread is.
    faulthandler.dump_traceback(all_threads=True)
    _end(IDLE)


def _end(code: int) -> NoReturn:
    """At once: Flower's HTTP thread would keep the process alive."""
    with suppress(Exception):  # a full disk must not keep the process alive
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
