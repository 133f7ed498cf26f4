"""The sites that a worker serves: opened when they are asked, with the settings of the round."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fedse.config.schema import Config
from fedse.errors import ConfigError, WireError
from fedse.method.site import Site
from fedse.protocol import UNNAMED, Question
from fedse.types import AdapterSpec

OpenSite = Callable[[str], Site]


class ServedSites:
    """The clients this worker serves, each opened at its first request."""

    def __init__(
        self,
        config: Config,
        clients: Sequence[str],
        open_one: OpenSite,
        policy: Path | None = None,
        config_in: Callable[[int], Config] | None = None,
        spec_in: Callable[[Config], AdapterSpec] | None = None,
    ) -> None:
        """`config_in` tells the settings of a round, where they can be amended; `spec_in` the
        layout of adapters with certain settings, so that no site is opened for it."""
        self.config, self.clients, self.policy = config, tuple(clients), policy
        self._open_one, self._config_in = open_one, config_in or (lambda round: config)
        self._spec_in = spec_in
        self._opened: dict[str, Site] = {}
        names = sorted(config.members)
        unknown = sorted(set(clients) - set(names))
        if unknown or not clients:
            raise ConfigError(
                f"client {', '.join(unknown) or '(none)'} is not in this experiment; "
                f"its clients are {', '.join(names)}",
                hint="--client NAME, one of those",
            )

    @property
    def place(self) -> Mapping[str, int]:
        """Of each client among all members' names in sorted order."""
        return {name: index for index, name in enumerate(sorted(self.config.members))}

    def place_in(self, question: Question, client: str) -> int:
        """The place with which a client answers.

        None for `agree`: members that have not all accepted the same amendment count differently.
        """
        return UNNAMED if question.kind == "agree" else self.place[client]

    def follow(self, round: int) -> None:
        """The settings are those of the round; sites that were open with others are closed."""
        config = self._config_in(round)
        if config.agreed_digest() != self.config.agreed_digest():
            self.close()
            self._opened.clear()
            self.config = config

    def client_at(self, place: int | None) -> str:
        """The client a request is for; only a worker of several clients needs `place`."""
        if place is None and len(self.clients) == 1:
            return self.clients[0]
        for client in self.clients:
            if self.place[client] == place:
                return client
        raise WireError(f"asked for client {place}, expected one of {', '.join(self.clients)}")

    def site(self, client: str) -> Site:
        if client not in self._opened:
            self._opened[client] = self._open_one(client)
        return self._opened[client]

    @property
    def spec(self) -> AdapterSpec:
        """The layout of adapters; worked out anew only until the first site is open."""
        first = self.clients[0]
        if self._spec_in and first not in self._opened:
            return self._spec_in(self.config)
        return self.site(first).spec

    def close(self) -> None:
        for site in self._opened.values():
            site.buffer.close()
