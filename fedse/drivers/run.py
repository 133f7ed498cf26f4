"""Run a whole experiment on this machine, with the driver its settings ask for."""

import time
from contextlib import closing

from fedse.adapters.base import spec_of
from fedse.drivers.consent import is_amended
from fedse.drivers.local import InProcess, worker_pool
from fedse.drivers.loop import federate
from fedse.drivers.pooled import Pooled
from fedse.drivers.sites import OpenSite
from fedse.drivers.stages import introduce
from fedse.drivers.worker_log import LOG, warnings_to
from fedse.site.open import open_site
from fedse.store.run import Run
from fedse.store.run_folder import run_config
from fedse.types import Adapter, Clock


def run_local(run: Run, *, clock: Clock = time.time, open_site: OpenSite = open_site) -> Adapter:
    """The whole experiment on this machine; the final global adapter."""
    adapter = _run_agreed(run, clock, open_site)
    while is_amended(run):
        run.config = run_config(run.path)
        run.spec = spec_of(run.config)
        adapter = _run_agreed(run, clock, open_site)
    return adapter


def _run_agreed(run: Run, clock: Clock, open_site: OpenSite) -> Adapter:
    """All rounds under one agreement; the newest global adapter."""
    homes = {name: run.path / "clients" / name for name in run.config.members}
    introduce(run.config, run.path, homes)
    if run.config.run.workers == 1 or run.config.buffer.pooled:
        driver = Pooled if run.config.buffer.pooled else InProcess
        with closing(driver(run, clock, open_site)) as here, warnings_to(run.path / LOG):
            return federate(run, here, clock=clock)
    with worker_pool(run, open_site) as ask:
        return federate(run, ask, clock=clock)
