"""A real federation of regions on this machine: each is a federation of its own, with its sites."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.federation import folder
from fedse.federation.above import create_region
from fedse.federation.folder import Card, Federation
from fedse.federation.invite import read_invite
from fedse.federation.rotation import read_either
from fedse.types import Clock
from tests.system.field import Field, maze_clients

ELSEWHERE = '[[clients]]\nname = "{}"\nenv = "elsewhere"\n'


class RegionTree(NamedTuple):
    """A coordinator above, and its regions by name; nothing runs yet."""

    root: Field
    regions: Mapping[str, Field]

    @property
    def fields(self) -> tuple[Field, ...]:
        return (self.root, *self.regions.values())

    def start(self, *options: str) -> None:
        self.root.start_server(*options)
        for region in self.regions.values():
            region.start_server(*options)
            for site in region.sites:
                region.start_site(site)

    def wait_for_end(self, seconds: float) -> dict[str, int]:
        """Exit codes of all coordinators, which have finished."""
        ends = time.monotonic() + seconds
        try:
            codes = {"root": self.root.wait_for_end(seconds)}
            for name, region in self.regions.items():
                codes[name] = region.wait_for_end(max(1.0, ends - time.monotonic()))
        except AssertionError as late:
            words = "\n".join(one.last_words() for one in self.fields)
            raise AssertionError(f"{late}\n{words}") from None
        return codes


@contextmanager
def region_tree(
    path: Path,
    settings: str,
    partition: Mapping[str, Sequence[str]],
    hosts: Mapping[str, str] | None = None,
) -> Iterator[RegionTree]:
    """Everybody is enrolled; nothing runs yet, and nothing does afterwards. Sites have no model.

    `settings` are sections of the experiment; a table `aggregate.regions` is added. `hosts` are the
    addresses of `root` and of the regions.
    """
    at = hosts or {}
    with ExitStack() as ended:
        counts = "".join(f"{name} = {len(sites)}\n" for name, sites in partition.items())
        members = "".join(map(ELSEWHERE.format, partition))
        above = f"{settings}[aggregate.regions]\n{counts}{members}"
        root = Field(path / "root", above, light=True, host=at.get("root", "localhost"))
        ended.callback(root.end)
        regions = {}
        for name, sites in partition.items():
            regions[name] = _region(
                path / name, root, name, maze_clients(sites), host=at.get(name, "localhost")
            )
            ended.callback(regions[name].end)
        yield RegionTree(root, regions)


def _region(path: Path, root: Field, name: str, clients: str, *, host: str) -> Field:
    now = int(time.time())
    file = folder.invite(root.federation, name, nonce=name * 8, now=now, hours=1)
    offered = read_invite(file, trusted=root.federation.card.fingerprint, now=now)

    def create(
        out: Path,
        config: Config,
        *,
        given: str,
        card: Card,
        now: datetime,
        clock: Clock,
    ) -> Federation:
        return create_region(out, offered, config, card=card, now=now, clock=clock)

    made = Field(path, clients, light=True, create=create, host=host)
    request = read_either(made.federation.path / "above" / "enrolment.json")
    folder.enrol(root.federation, request, now=now)
    return made
