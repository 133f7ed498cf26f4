"""One process that must always run: it is started again whenever it ends."""

from collections.abc import Callable

from fedse.errors import RunError
from fedse.processes.group import Processes, Started, tail

# Seconds before it is started again; the last counts for all further ones. A server refuses a
# node it does not know yet, and for a minute one that it believes online.
PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0)
# One that ran this long, or was seen to be ready, has worked: the pauses start over.
STEADY_SECONDS = 60.0
# Give up after this many in a row that were never ready.
HOPELESS = 3

Tell = Callable[[str], None]


class RestartingProcess:
    """A process that runs, or will again after a pause; `look` from time to time sees to it."""

    def __init__(
        self,
        processes: Processes,
        start: Callable[[], Started],
        *,
        tell: Tell,
        likely: str = "",
        ready: Callable[[], bool] | None = None,
        hint: str = "",
    ) -> None:
        self._processes, self._start, self._tell = processes, start, tell
        self._likely, self._ready, self._hint = likely, ready, hint
        self._short, self._unready = 0, 0
        self._was_ready = False
        self._began = self._again = 0.0
        self.started: Started | None = None

    def look(self, now: float) -> None:
        """It runs, or its turn to be started has not come; one that never gets ready is an error.

        `now` is in seconds of a clock that does not go back.
        """
        if self.started is None:
            if now >= self._again:
                self._began, self._was_ready = now, False
                self.started = self._start()
            return
        self._was_ready = self._was_ready or self._ready is None or self._ready()
        code = self._processes.collect(self.started)
        if code is not None:
            ended, self.started = self.started, None
            self._plan(ended, code, now)

    def _plan(self, ended: Started, code: int, now: float) -> None:
        self._unready = 0 if self._was_ready else self._unready + 1
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
        # A negative code is the signal that ended it: it did not end by itself.
        likely = self._likely if code > 0 else ""
        self._tell(
            f"{ended.name} ended with exit code {code}{likely}: {ended.log}; "
            f"started again in {pause:.0f} s"
        )
