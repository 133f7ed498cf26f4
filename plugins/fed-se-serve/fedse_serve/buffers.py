"""The buffers beside a service: the site's own, or those of the clients of a run."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path

from fedse.config.schema import Config
from fedse.envs.base import subject_of
from fedse.site.forget import Forgotten, forget_subject
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.lock import locked
from fedse.store.run_folder import held, run_config
from fedse.types import Clock
from fedse_serve.harvest import Service
from fedse_serve.place import RUN, SITE, Place

FILE = "buffer.db"


def buffers_of(place: Place) -> list[Path]:
    """The files of the buffers; none where nothing was learned yet."""
    own = place.home / FILE
    return [own] if own.is_file() else sorted(place.home.glob(f"clients/*/{FILE}"))


def idle(place: Place, command: str) -> AbstractContextManager[None]:
    """Nobody learns from the service meanwhile; else the hint is to type `command` again."""
    if not buffers_of(place):
        return nullcontext()
    if (place.home / RUN).is_file():
        return held(place.home)
    again = f"stop it (Ctrl-C, or its service), then: fedse {command}"
    return locked(place.home, busy=f"a site is running from {place.home}", hint=again)


def forget_lessons(place: Place, person: str, *, clock: Clock) -> Iterator[tuple[Path, Forgotten]]:
    """No episode of the person is in a buffer, or in what a site made of it for itself.

    `person` is the digest by which records and buffers know them. It has to be done before the
    records forget them, which tell whose a game of a round under way is.
    """
    for file in buffers_of(place):
        service = Service(folder=str(place.folder), clock=clock)
        client, config = _owner(place, file.parent)
        whose, seal = partial(subject_of, service), seal_beside(file)
        with (
            closing(service.records),
            closing(Buffer(file, subject_of=whose, seal=seal)) as buffer,
        ):
            told = forget_subject(person, buffer, file.parent, client, config, clock=clock)
        # The records have the digest too: they know by it who was forgotten.
        others = [one for one in told.elsewhere if place.folder not in one.parents]
        yield file.parent, told._replace(elsewhere=tuple(others))


def _owner(place: Place, folder: Path) -> tuple[str, Config]:
    """The client whose buffer is in `folder`, and the settings that it learns by."""
    if not (folder / SITE).is_file():
        return folder.name, run_config(place.home)
    from fedse.federation.home import open_home

    home = open_home(folder)
    return home.card.site, home.config
