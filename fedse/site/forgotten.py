"""Tasks about people who were forgotten are not played again."""

from collections.abc import Callable, Sequence

from fedse.errors import EnvError
from fedse.store.buffer import Buffer
from fedse.types import Purpose, Task


def remaining_tasks(
    tasks: Callable[[Purpose], Sequence[Task]], buffer: Buffer, purpose: Purpose
) -> Sequence[Task]:
    """The tasks for a purpose, without those about anybody who was forgotten here."""
    given = tasks(purpose)
    if not buffer.erasures.all():
        return given
    left = [task for task in given if not buffer.erasures.is_forgotten(buffer.subject_of(task))]
    if given and not left:
        raise EnvError(
            f"all {len(given)} tasks for {purpose} are about people who were forgotten here",
            hint="give the environment tasks about others",
        )
    return left
