"""CPU seconds of a process with all that it started, what has ended included."""

import psutil

# A tree that changes while it is read is read again.
TRIES = 20


def cpu_seconds(pid: int) -> float:
    """What the process and its descendants have used since they began; 0 if it is gone.

    The kernel adds the time of a child that ended to its parent once the parent has collected it,
    with the time of that child's own children. Until then the child is still listed, with its own
    time. So the sum over all that is listed counts everybody once, but for a process that was left
    by its parent: it belongs to no tree.
    """
    seconds = 0.0
    for _ in range(TRIES):
        try:
            before = _tree(pid)
            seconds = sum(map(_listed_seconds, before))
            # Who ended or began in between would be missing or counted twice.
            if _tree(pid) == before:
                return seconds
        except psutil.NoSuchProcess:
            if not psutil.pid_exists(pid):
                return 0.0
    return seconds


def _tree(pid: int) -> list[psutil.Process]:
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def _listed_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
