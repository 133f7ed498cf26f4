"""A site that joins another federation takes along what it has learned from, and its account.

From its old home into the new one move: episodes, who was forgotten, the privacy journal, and the
site's own settings with the files that they name. Answers, and what belongs to a round under way,
do not. They move instead of being copied: of two accounts one would forget what the other spends,
and a person would be forgotten in one of two places. Its ledger and adapters stay in the old home.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import tomlkit

from fedse.agent.prompt import as_texts
from fedse.config.file import with_own_settings
from fedse.config.hardware import OWN_SECTIONS
from fedse.config.schema import Config
from fedse.errors import ConfigError, StoreError, boundary
from fedse.federation.home import BESIDE, SITE, SiteCard
from fedse.ledger.record import note_erasures, note_moved
from fedse.store.buffer import Buffer
from fedse.store.buffer_key import seal_beside
from fedse.store.buffer_schema import open_file, transaction
from fedse.store.database import copy_database
from fedse.store.files import OWNER_ONLY, sync_folder, write_durably
from fedse.store.kept_copy import remove_copies
from fedse.store.lock import locked
from fedse.store.privacy_journal import PrivacyJournal
from fedse.store.space import Need, require_room
from fedse.store.sweeping import note_unswept
from fedse.types import Clock

DATABASE = "buffer.db"
LEFT_BEHIND = (
    *("part", "outbox", "steps_taken", "sent", "sent_piece"),
    *("asked", "moments", "local_block", "audit", "secure_sum"),
)
"""Tables of rounds; their numbers mean nothing in another federation."""
TIMES = 4
"""Bytes that are needed per byte of the database: for its copy, the log, and the sweep."""


def move_experience(old: Path, card: SiteCard, *, home: Path, config: Config, clock: Clock) -> str:
    """`home` has the experience that `old` had, and both ledgers say so; the site's own settings.

    Giving the command again after a crash ends what is not done.
    """
    if not (old / SITE).is_file():
        raise ConfigError(f"{old} is not the home of a site: it has no {SITE}", hint="name another")
    settings = with_own_settings(config, old / SITE)
    hint = f"stop it (Ctrl-C, or its service), then join again with --experience {old}"
    with locked(old, busy=f"a site is running from {old}", hint=hint):
        for name in _own_files(settings):
            if (old / name).is_file() and (old / name) != (home / name):
                (home / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_durably(home / name, (old / name).read_bytes(), mode=OWNER_ONLY)
        if (old / DATABASE).is_file():
            _move(old, home, config, card, clock=clock)
        elif not (home / DATABASE).is_file():
            raise StoreError(
                f"{old} has no {DATABASE}, so there is no experience to take along",
                hint=f"did it move before? fedse ledger show {old}; else join without --experience",
            )
    return _own_settings(old / SITE)


def _move(old: Path, home: Path, config: Config, card: SiteCard, *, clock: Clock) -> None:
    source = old / DATABASE
    require_room(Need(home, TIMES * source.stat().st_size, "the experience of another home"))
    with _made_anew(home / ".experience") as place:
        copy = place / DATABASE
        copy_database(source, copy)
        copy.chmod(OWNER_ONLY)
        _leave_rounds(copy, config.run.name, old)
        # Another model may have sampled the tokens; which one, no episode says.
        with closing(Buffer(copy, redact=as_texts, seal=seal_beside(source))) as buffer:
            buffer.rewrite()
            lessons, charges = len(buffer), len(buffer.outbox.privacy.charges())
            erasures = buffer.erasures.all()
        copy.replace(home / DATABASE)
    sync_folder(home)
    was, counts = _card(old / SITE), {"lessons": lessons, "charges": charges}
    note_moved(home, card.site, "brought", other=was.agreed, clock=clock, **counts)
    note_erasures(home, card.site, erasures, clock=clock)
    note_moved(old, was.site, "left", other=card.agreed, clock=clock, **counts)
    remove_copies(source)
    for end in ("-wal", "-shm", ""):
        source.with_name(f"{source.name}{end}").unlink(missing_ok=True)
    sync_folder(old)


@contextmanager
def _made_anew(folder: Path) -> Iterator[Path]:
    """An empty folder, which is gone afterwards; so is what a killed process left in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _leave_rounds(copy: Path, name: str, old: Path) -> None:
    """Nothing is left of what belongs to rounds, but each answer's charge to the budget is."""
    with closing(open_file(copy)) as db:
        journal = PrivacyJournal(db)
        journal.note_unprotected()
        tables = ("trajectory", "played", "privacy")
        query = " UNION ".join(f"SELECT experiment FROM {table}" for table in tables)
        experiments = [experiment for (experiment,) in db.execute(query)]
        if name in experiments:
            raise ConfigError(
                f"both federations name their experiment {name!r}, so that rounds of the old one in"
                f" {old} would be taken for rounds of the new one",
                hint="ask the coordinator for a federation with another run.name",
            )
        with transaction(db):
            for experiment in experiments:
                journal.forget_secrets(experiment, up_to=sys.maxsize)
            for table in LEFT_BEHIND:
                db.execute(f"DELETE FROM {table}")
            note_unswept(db, "another federation")


def _own_files(settings: Config) -> Iterator[str]:
    """Files that the settings name and that are in the site's folder."""
    redact = settings.redact
    yield from (n for n in (settings.storage.key, *redact.words, *redact.patterns) if n)


def _card(file: Path) -> SiteCard:
    document = _parsed(file)
    return SiteCard.model_validate({name: document[name] for name in SiteCard.model_fields})


def _own_settings(file: Path) -> str:
    document = _parsed(file)
    for name in [name for name in document if name not in (*OWN_SECTIONS, *BESIDE)]:
        document.remove(name)
    return "\n" + tomlkit.dumps(document).lstrip()


def _parsed(file: Path) -> tomlkit.TOMLDocument:
    with boundary(StoreError, f"{file}"):
        return tomlkit.parse(file.read_text(encoding="utf-8"))
