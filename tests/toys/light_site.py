"""A site that plays and learns without a model; its adapters have the real layout.

For laws that are not about the model: a worker of such a site starts in a tenth of the CPU time.
"""

from dataclasses import replace
from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.agent.policy import Beat, no_beat
from fedse.config.schema import Config
from fedse.method.site import Site
from fedse.site.open import add_demonstrations
from fedse.testing import open_toy_site
from fedse.types import Clock


def open_light_site(
    config: Config, client: str, home: Path, *, clock: Clock, beat: Beat = no_beat, new: bool = True
) -> Site:
    """A site without a model that has its demonstrations, so it has something to learn from."""
    site = replace(open_toy_site(config, client, home, clock=clock), spec=spec_of(config))
    add_demonstrations(site, config, beat)
    return site
