"""The process of a region: it answers the coordinator above, and asks its sites, over sockets."""

import logging
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from fedse.adapters.base import spec_of
from fedse.config.file import load_config
from fedse.errors import ConfigError, FedSEError
from fedse.site.listening import SocketAddress, listen
from fedse.site.log import log_to
from fedse.tree.link import log, serve_region
from fedse.tree.region import Region
from fedse.tree.settings import regions_of
from fedse.tree.worker_sockets import WorkerSockets


def run_region(config: Path, name: str, sites: Path, socket: Path, home: Path) -> None:
    """Serves until SIGTERM or SIGINT; the region's ledger is open before the socket exists."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log_to(home, logging.getLogger("fedse.region"))
    experiment = load_config(config)
    regions = regions_of(experiment)
    if name not in regions:
        raise ConfigError(
            f"region {name} is not in this experiment; its regions are {', '.join(regions)}",
            hint="--region NAME, one of those",
        )
    spec = spec_of(experiment)
    sockets = {client: sites / f"{client}.sock" for client in regions[name]}
    ask = WorkerSockets(experiment, spec, sockets)
    region = Region(name, experiment, spec, ask, home, clock=time.time)
    with listen(SocketAddress(socket)) as listener:
        log.info("ready: region %s at %s", name, socket)
        print(f"ready {socket}", flush=True)
        serve_region(listener, region)


def _arguments(argv: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser("python -m fedse.tree.process", description=__doc__)
    parser.add_argument("config", type=Path, help="the experiment, as this region agreed to it")
    parser.add_argument("--region", required=True, help="its name in clients.region")
    parser.add_argument("--sites", type=Path, required=True, help="folder with CLIENT.sock of each")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument("--home", type=Path, required=True, help="its folder: ledger, key, votes")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a region from the command line; the exit code is the error's."""
    given = _arguments(argv)
    try:
        run_region(given.config, given.region, given.sites, given.socket, given.home)
    except FedSEError as error:
        hint = f"\n  next: {error.hint}" if error.hint else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
