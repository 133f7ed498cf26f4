"""Run an experiment on real Flower processes of this machine: TLS, authenticated nodes, no mocks.

    python scripts/deploy_loopback.py CONFIG RUN_DIR

RUN_DIR becomes the server's run folder, or is gone on with if it is one; everything else, each
site's own folder included, lies beside it in RUN_DIR-deployment.
"""

import signal
import sys
import time
from datetime import datetime
from pathlib import Path

from fedse.config.file import load_config
from fedse.errors import FedSEError
from fedse.flower.ops.deployment import run_deployment
from fedse.store.run_folder import create_run


def main(config_file: Path, run_dir: Path) -> None:
    """The run is at its end; where everything lies was printed."""
    folder = run_dir.with_name(f"{run_dir.name}-deployment")
    if not (run_dir / "run.json").exists():
        create_run(
            run_dir.parent,
            load_config(config_file),
            given=config_file.read_text(encoding="utf-8"),
            name=run_dir.name,
            now=datetime.now(),
            clock=time.time,
        ).close()
    print(f"run    {run_dir}\nlogs   {folder / 'logs'}\nsites  {folder / 'sites'}", flush=True)
    started = time.monotonic()
    digest = run_deployment(run_dir, folder)
    print(f"final  {digest}\ntook   {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    # Without this a terminated script would leave its processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    except FedSEError as error:
        hint = f"\n  next: {error.hint}" if error.hint else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        sys.exit(error.exit_code)
