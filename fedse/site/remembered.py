"""Work that experiments on one machine have in common is done once: the same fit, the same games.

A site alone begins as it does together with others: its first round and the measurement of the
adapter that all begin with are equal in both. Both depend on nothing but their arguments and the
site's settings, so what was found once, and kept in a folder under the digest of these, is true.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedse.config.schema import Config
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.method.site import Site
from fedse.site.open import open_site
from fedse.store.files import new_folder, write_durably
from fedse.types import Adapter, Clock, Fitted, Lessons, Record, Trajectory, digest_of


class GamesPlayed(Record):
    episodes: tuple[Trajectory, ...]


def open_remembering(
    folder: Path, config: Config, client: str, home: Path, *, clock: Clock
) -> Site:
    """The client's site; what any site with the same settings did before is read from `folder`."""
    site = open_site(config, client, home, clock=clock)
    memory = _Remembered(folder, site, config)
    return replace(site, fit=memory.fit, play=memory.play)


class _Remembered:
    """One site's fits and games, each under the digest of all that decides about it."""

    def __init__(self, folder: Path, site: Site, config: Config) -> None:
        self._folder, self._site, self._config = folder, site, config
        member = config.client(site.client)
        sections = ("rollout", "trainer", "engine", "redact")
        settings = [getattr(config, name).model_dump(mode="json") for name in sections]
        if config.roles.names:
            settings += [config.roles.model_dump(mode="json"), member.roles]
        self._place = [site.spec.identity, member.env, member.options, site.client, settings]

    def fit(
        self, start: Adapter, lessons: Lessons, settings: TrainSection, seed: int, course: Course
    ) -> Fitted:
        """As the site fits; what is learned with noise is never kept."""
        if course.private:
            return self._site.fit(start, lessons, settings, seed, course)
        learned = [(lesson.content_digest, lesson.outcome, _sampled(lesson)) for lesson in lessons]
        where = [*course._replace(moments=None), hashlib.sha256(course.moments or b"").hexdigest()]
        asked = [start.digest, learned, settings.model_dump(mode="json"), seed, where]
        # Heavy, as training is.
        from fedse.train.order import FitFolder

        done = self._path("fit", asked)
        if done.is_dir():
            return FitFolder(done).read_fitted(start.spec)
        fitted = self._site.fit(start, lessons, settings, seed, course)
        # Another process may have kept the same meanwhile.
        with suppress(OSError), new_folder(done) as folder:
            FitFolder(folder).write_fitted(fitted)
        return fitted

    def play(
        self, games: Sequence[Any], make_env: Any, policy: Any, /, **options: Any
    ) -> list[Trajectory]:
        """As the site plays; the games are on record at the site either way."""
        temperature, loss = self._config.eval.temperature, self._config.train.loss
        # What of a game is on record depends on the loss.
        settings = [temperature, loss, self._config.buffer.keep_played]
        played = [(game.task.model_dump(mode="json"), game.seed, game.record) for game in games]
        how = {name: value for name, value in options.items() if name != "progress"}
        file = self._path("games", [policy.name, played, how, settings])
        if not file.is_file():
            found = self._site.play(games, make_env, policy, **options)
            write_durably(file, GamesPlayed(episodes=tuple(found)).model_dump_json().encode())
            return found
        episodes = [*GamesPlayed.model_validate_json(file.read_bytes()).episodes]
        self._site.buffer.record_played(
            episodes,
            experiment=self._config.run.name,
            bodies=self._config.buffer.keep_played,
            record=games[0].record if games else "",
        )
        if progress := options.get("progress"):
            progress(len(episodes), sum(episode.success for episode in episodes))
        return episodes

    def _path(self, kind: str, asked: object) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{kind}-{digest_of([self._place, asked])[:32]}"


def _sampled(lesson: Trajectory) -> str:
    return hashlib.sha256(repr(lesson.token_ids).encode()).hexdigest()
