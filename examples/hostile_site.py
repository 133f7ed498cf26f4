"""A site that is enrolled like any other and answers with poison: python hostile_site.py HOME

Its key, its SuperNode and its app are those of an honest site, so nothing gives it away before its
reply is read. It plays no game: it claims to have won them all, and spoils the adapter it was sent
in another way each round.
"""

import math
import sys
from typing import Any

import numpy as np

from fedse.__main__ import end_on_sigterm
from fedse.cli.app import start
from fedse.config.schema import Config
from fedse.flower.ops import serve_site
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
from fedse.site import worker
from fedse.types import ClientStats

AS_WORKER = "--as-worker"


def not_a_number(adapter: np.ndarray, header: bytes) -> bytes:
    """One such number in a mean makes the mean one as well."""
    return header + np.full_like(adapter, math.nan).tobytes()


def a_million_times(adapter: np.ndarray, header: bytes) -> bytes:
    """Finite, and so long that a mean with it is nearly it alone."""
    return header + (adapter * np.float32(1e6)).tobytes()


def cut_short(adapter: np.ndarray, header: bytes) -> bytes:
    """The last number is missing: a reader that trusts the header reads beyond the end."""
    return header + adapter.tobytes()[:-4]


POISONS = (not_a_number, a_million_times, cut_short)


def poisoned(request: Question, data: bytes, site: Site, config: Config, **_: Any) -> SiteReply:
    """The answer in place of the honest one; no fault is admitted."""
    header = site.spec.header
    adapter = np.frombuffer(data, "<f4", offset=len(header))
    spoil = POISONS[(request.round - 1) % len(POISONS)]
    games = config.rollout.episodes
    return SiteReply(ClientStats(played=games, succeeded=games), spoil(adapter, header))


def main(arguments: list[str]) -> int:
    """Takes part as `fedse site start` does, with this program in place of the worker."""
    if arguments[0] == AS_WORKER:
        worker.answer = poisoned
        return worker.main(arguments[1:])
    honest = serve_site.worker_command

    def own_worker(*given: Any) -> list[str]:
        command = honest(*given)
        rest = command[command.index(worker.__name__) + 1 :]
        return [command[0], __file__, AS_WORKER, *rest]

    serve_site.worker_command = own_worker
    end_on_sigterm()
    return start(["site", "start", "--home", arguments[0]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
