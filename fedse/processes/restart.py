"""One process that must always run: it is started again whenever it ends."""

from collections.abc import Callable

from fedse.errors import FedSEError, RunError
from fedse.processes.group import Processes, Started, tail
from fedse.processes.watchdog import Watchdog
from fedse.store.space import is_full

# Seconds before it is started again; the last counts for all further ones. A server refuses a
# node it does not know yet, and for a minute one that it believes online.
PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0)
# One that ran this long, or was seen to be ready, has worked: the pauses start over.
STEADY_SECONDS = 60.0
# Give up after this many in a row that were never ready.
HOPELESS = 3

Tell = Callable[[str], None]


class RestartingProcess:
    """A process that runs, or will run again after a pause; call `look` regularly."""

    def __init__(
        self,
        processes: Processes,
        start: Callable[[], Started],
        *,
        tell: Tell,
        likely: Callable[[int], str] = lambda code: "",
        ready: Callable[[], bool] | None = None,
        hint: str = "",
        lacking: Callable[[float], bool] = lambda now: False,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._processes, self._start, self._tell = processes, start, tell
        self._likely, self._ready, self._hint = likely, ready, hint
        # While the disk has no room nothing is started, and an end is not the process's fault.
        self._lacking, self._watchdog = lacking, watchdog
        self._short, self._unready = 0, 0
        self._was_ready, self._why = False, ""
        self._began = self._again = 0.0
        self.started: Started | None = None

    def look(self, now: float) -> None:
        """It runs, or its turn to be started has not come; one that never gets ready is an error.

        `now` is in seconds of a clock that does not go back.
        """
        if self.started is None:
            if now >= self._again and not self._lacking(now):
                self._begin(now)
            return
        self._was_ready = self._was_ready or self._ready is None or self._ready()
        if self._watchdog and (problem := self._watchdog.problem(now)):
            self._tell(f"{self.started.name} {problem}: it is killed and started again")
            self._processes.kill(self.started)
        code = self._processes.collect(self.started)
        if code is not None:
            ended, self.started = self.started, None
            self._plan(ended, code, now)

    def restart(self, why: str) -> None:
        """It is asked to end, and runs again at once; `why` is told in place of its exit code."""
        if self.started:
            self._why = why
            self.started.process.terminate()

    def _begin(self, now: float) -> None:
        self._began, self._was_ready = now, False
        try:
            self.started = self._start()
            if self._watchdog:
                self._watchdog.begin(self.started.process.pid)
        except (FedSEError, OSError) as error:
            if not is_full(error) and not self._lacking(now):
                raise
            self._again = now + PAUSES[-1]
            self._tell(f"not started, {error}; tried again in {PAUSES[-1]:.0f} s")

    def _plan(self, ended: Started, code: int, now: float) -> None:
        why, self._why = self._why, ""
        if why:
            self._again = now
            self._tell(f"{ended.name} is restarted {why}")
            return
        if self._was_ready:
            self._unready = 0
        elif not self._lacking(now):
            self._unready += 1
        if self._unready >= HOPELESS:
            raise RunError(
                f"{ended.name} ended {self._unready} times before it was ready, last with exit "
                f"code {code}{tail(ended.log)}",
                hint=self._hint or f"less {ended.log}",
            )
        worked = self._ready is not None and self._was_ready
        worked = worked or now - self._began >= STEADY_SECONDS
        self._short = 0 if worked else self._short + 1
        pause = PAUSES[min(max(self._short - 1, 0), len(PAUSES) - 1)]
        self._again = now + pause
        self._tell(
            f"{ended.name} ended with exit code {code}{self._likely(code)}: {ended.log}; "
            f"started again in {pause:.0f} s"
        )
