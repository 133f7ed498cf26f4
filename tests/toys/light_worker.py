"""A worker process whose sites play and learn without a model; adapters have the real layout."""

import sys
from dataclasses import replace
from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.agent.policy import Beat, no_beat
from fedse.config.schema import Config
from fedse.method.site import Site
from fedse.site import worker
from fedse.testing import open_toy_site
from fedse.types import Clock


def open_light_site(
    config: Config, client: str, home: Path, *, clock: Clock, beat: Beat = no_beat
) -> Site:
    """A site without a model, whose moves are too short to need a pulse."""
    return replace(open_toy_site(config, client, home, clock=clock), spec=spec_of(config))


if __name__ == "__main__":
    worker.open_site = open_light_site
    sys.exit(worker.main())
