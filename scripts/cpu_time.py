"""What the processes that this one has started cost."""

import resource


def children_cpu_seconds() -> float:
    """User and system seconds of all children that have ended and were waited for, up to now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
