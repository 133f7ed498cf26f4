"""What sums of regions cost beside one server: CPU seconds, bytes, memory, and whose bits differ.

The votes are a global adapter whose B is zero, as when a run begins, and updates of different
lengths, so that the clip shortens half of them. Prints JSON. Linux only.

OPENBLAS_NUM_THREADS=1 python -m research.measure_tree --megabytes 20 --sites 12 --regions 3
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from fedse.aggregate.merge import Vote, checked_vote, clip_bound, mean, shares_of
from fedse.aggregate.regional import merge_sums, regional_sum, sum_to_bytes
from fedse.config.aggregation import AggregateSection
from fedse.store.files import mapped
from fedse.testing import toy_spec
from fedse.types import Adapter, AdapterSpec
from research.measure_merge import forget_peak, peak_bytes

T = TypeVar("T")


class TreeFigures(NamedTuple):
    """One merge of the same votes in three ways."""

    clip: str
    adapter_mb: float
    sites: int
    regions: int
    planes: int
    """Of the widest sum."""
    sum_mb: float
    """Of the largest sum."""
    check_cpu_seconds_per_vote: float
    ordered_cpu_seconds_per_vote: float
    exact_cpu_seconds_per_vote: float
    region_cpu_seconds_per_vote: float
    root_cpu_seconds_per_region: float
    root_more_mb: float
    """Resident memory that the root's merge adds; the pages of mapped sums are part of it."""
    differing_numbers: int
    """Of the adapters by ordered and by exact sums."""
    same_digest: bool
    """Of the tree and of one server with exact sums."""


def adapters(spec: AdapterSpec, sites: int, folder: Path) -> tuple[Adapter, list[Path]]:
    draw = np.random.default_rng(0)
    begun = (draw.standard_normal(spec.size) * 0.02).astype(np.float32)
    for name, span in spec.slices.items():
        if ".lora_B." in name:
            begun[span] = 0
    files = []
    for number in range(sites):
        step = draw.standard_normal(spec.size, dtype=np.float32) * 1e-3 * (1 + number / sites)
        path = folder / f"{number:04d}"
        path.write_bytes(Adapter(spec, (begun + step).astype(np.float32)).to_bytes())
        files.append(path)
    return Adapter(spec, begun), files


def measure(spec: AdapterSpec, sites: int, regions: int, clip: str, folder: Path) -> TreeFigures:
    current, files = adapters(spec, sites, folder)
    settings = {how: AggregateSection(sum=how, clip=clip) for how in ("ordered", "exact")}
    votes: list[Vote] = []

    def check() -> None:
        for path in files:
            read = partial(mapped, path)
            votes.append(checked_vote(path.name, read, 1, current, settings["exact"]))

    checked, _ = timed(check)
    ordered, plain = timed(lambda: mean(current, votes, settings=settings["ordered"]))
    exact, flat = timed(lambda: mean(current, votes, settings=settings["exact"]))
    norms = [vote.length or 0.0 for vote in votes]
    bound = clip_bound(norms, settings["exact"])
    sums, spent = [], 0.0
    for region in range(regions):
        own = votes[region::regions]
        add = partial(regional_sum, current, own, bound=bound, settings=settings["exact"])
        seconds, planes = timed(lambda add=add: sum_to_bytes(add()))
        kept = folder / f"sum-{region}"
        kept.write_bytes(planes)
        sums.append(kept)
        spent += seconds
        del planes
    shares = shares_of(norms, [1.0] * sites, settings["exact"])
    reads = [partial(mapped, path) for path in sums]
    forget_peak()
    before = peak_bytes()
    root, tree = timed(lambda: merge_sums(current, reads, shares, settings["exact"]))
    largest = max(path.stat().st_size for path in sums)
    return TreeFigures(
        clip=clip,
        adapter_mb=round(spec.nbytes / 1e6, 1),
        sites=sites,
        regions=regions,
        planes=largest // (8 * spec.size),
        sum_mb=round(largest / 1e6, 1),
        check_cpu_seconds_per_vote=round(checked / sites, 4),
        ordered_cpu_seconds_per_vote=round(ordered / sites, 4),
        exact_cpu_seconds_per_vote=round(exact / sites, 4),
        region_cpu_seconds_per_vote=round(spent / sites, 4),
        root_cpu_seconds_per_region=round(root / regions, 4),
        root_more_mb=round((peak_bytes() - before) / 1e6, 1),
        differing_numbers=int(np.count_nonzero(plain.vector != flat.vector)),
        same_digest=tree.digest == flat.digest,
    )


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of this process, and the result."""
    started = time.process_time()
    found = act()
    return time.process_time() - started, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--sites", type=int, default=12)
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the votes are written; they are removed")
    args = parser.parse_args()
    width = int(args.megabytes * 1e6 / 4 / 8 / 2)
    spec = toy_spec(rank=8, inputs=width, outputs=width)
    found = []
    for clip in ("none", "median"):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            figures = measure(spec, args.sites, args.regions, clip, Path(folder))
        found.append(figures._asdict())
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
