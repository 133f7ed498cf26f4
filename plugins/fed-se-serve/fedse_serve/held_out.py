"""Whose a held-out session is."""

from fedse_serve.marks import TASK_LENGTH
from fedse_serve.records import Records


class HeldOut:
    """Whose the held-out sessions are, by the names that they are evaluated under."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def person(self, task: str, records: Records) -> str | None:
        """The digest of the person; None = nobody is known, or there is no such session."""
        if len(task) == TASK_LENGTH and task not in self._known:
            # The names cannot be turned back into sessions, so all are made once more.
            rows = records.db.execute("SELECT session, person FROM session WHERE held_out")
            show, name = records.seal.show, records.marks.task
            self._known = {name(show(hidden)): person for hidden, person in rows}
        return self._known.get(task)
