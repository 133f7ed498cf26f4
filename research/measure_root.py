"""What a tree costs its coordinator and its regions per site, beside the adapters' numbers.

Made-up sites answer at once with toy adapters, so what is measured is all the rest: asking, lines
by name, signatures, ledgers, the committed round. Regions run in threads of this process; their CPU
time is counted by thread. Prints JSON. FOLDER in memory (/dev/shm) leaves out waiting for a disk.

OPENBLAS_NUM_THREADS=1 python -m research.measure_root --folder /dev/shm --regions 10 --sites 100
"""

import argparse
import json
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fedse.config.schema import Config
from fedse.drivers.loop import federate_by
from fedse.ledger.keys import PUBLIC, read_public
from fedse.protocol import Delivery, Request
from fedse.seeds import seed_of
from fedse.store.run import Run
from fedse.testing import toy_adapter, toy_spec
from fedse.tree.messages import RegionAsk, RegionReply
from fedse.tree.region import Region
from fedse.tree.root import RegionLink, Regions
from fedse.tree.settings import regions_of
from fedse.types import Adapter, ClientStats
from research.measure_merge import forget_peak, peak_bytes

ROUNDS = 2


class RootFigures(NamedTuple):
    """Two rounds of one tree."""

    regions: int
    sites: int
    """In all regions together."""
    root_ms_per_site_and_round: float
    region_ms_per_site_and_round: float
    kilobytes_told_per_site_and_round: float
    """JSON that a region sends up."""
    state_kilobytes_per_site_and_round: float
    """The run's database."""
    peak_mb: float


class MadeUpSites:
    """Sites that vote at once."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __call__(
        self, request: Request, adapter: Adapter, *, skip: Collection[str] = ()
    ) -> Iterator[Delivery]:
        for name in self._names:
            vote = toy_adapter(adapter.spec, seed_of(name, request.round) % 2**32, scale=0.1)
            yield Delivery(name, ClientStats(played=2, buffered=4), vote.to_bytes())


class CountedRegion:
    """A region whose CPU seconds and answers are counted."""

    def __init__(self, region: Region) -> None:
        self._region, self.seconds, self.told = region, 0.0, 0

    def __call__(self, asked: RegionAsk, data: bytes) -> RegionReply:
        started = time.thread_time()
        reply = self._region.answer(asked, data)
        self.seconds += time.thread_time() - started
        self.told += sum(len(line.model_dump_json()) for line in reply.lines)
        return reply


def measure(regions: int, sites: int, folder: Path) -> RootFigures:
    clients = [
        {"name": f"site-{r}-{s}", "env": "maze", "region": f"region-{r}"}
        for r in range(regions)
        for s in range(sites)
    ]
    sections = {"run": {"rounds": ROUNDS}, "eval": {"episodes": 0}, "aggregate": {"sum": "exact"}}
    config = Config.model_validate({**sections, "clients": clients})
    spec, counted, links = toy_spec(), [], []
    for name, members in regions_of(config).items():
        home, ask = folder / name, MadeUpSites(members)
        one = CountedRegion(Region(name, config, spec, ask, home, clock=time.time))
        counted.append(one)
        links.append(RegionLink(name, members, read_public(home / PUBLIC), one))
    forget_peak()
    with closing(Run(folder / "run", config, spec, clock=time.time)) as run:
        started = time.process_time()
        above = Regions(run, links, clock=time.time)
        federate_by(above.gather, run, above, clock=time.time)
        spent = time.process_time() - started
    below, whole = sum(one.seconds for one in counted), regions * sites
    each = partial(round, ndigits=3)
    return RootFigures(
        regions=regions,
        sites=whole,
        root_ms_per_site_and_round=each(1000 * (spent - below) / whole / ROUNDS),
        region_ms_per_site_and_round=each(1000 * below / whole / ROUNDS),
        kilobytes_told_per_site_and_round=each(
            sum(one.told for one in counted) / whole / ROUNDS / 1e3
        ),
        state_kilobytes_per_site_and_round=each(
            (folder / "run" / "state.db").stat().st_size / whole / ROUNDS / 1e3
        ),
        peak_mb=round(peak_bytes() / 1e6, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regions", type=int, default=10)
    parser.add_argument("--sites", type=int, default=100, help="in each region")
    parser.add_argument("--folder", type=Path, help="where the run is written; it is removed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        print(json.dumps(measure(args.regions, args.sites, Path(folder))._asdict(), indent=1))


if __name__ == "__main__":
    main()
