"""`fedse site start`: take part, and report what happens."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fedse.cli.display import Plain, mode_of, print_aside
from fedse.cli.federation_options import require_flower_and_model
from fedse.cli.site_options import HERE, HomeOption, opened

Tell = Callable[[str], None]


def start(*, home: HomeOption = HERE, plain: Plain = False) -> None:
    """Take part: the site's worker and its node run until Ctrl-C.

    The console shows whether the server can be reached, why not, and each stage of a round.

    Example: fedse site start --home site
    """
    require_flower_and_model()
    site = opened(home)
    from fedse.flower.ops.serve_site import serve_site

    try:
        with site_screen(plain=mode_of(sys.stderr, json=False, plain=plain) != "live") as (
            tell,
            show,
        ):
            serve_site(site, tell=tell, show=show)
    except KeyboardInterrupt:
        print_aside("stopped; start again whenever you like")


@contextmanager
def site_screen(*, plain: bool) -> Iterator[tuple[Tell, Tell]]:
    """How to print a line and how to show the current state, which plain output leaves out."""
    if plain:
        yield print_aside, lambda now: None
        return
    from rich.console import Console  # costs a tenth of a second

    console = Console(stderr=True, highlight=False)
    with console.status("connecting") as status:

        def tell(line: str) -> None:
            # A terminal that was closed must not stop the site.
            with suppress(OSError):
                at = time.strftime("%H:%M:%S")
                console.print(f"{at} {line}", markup=False, soft_wrap=True)

        def show(now: str) -> None:
            with suppress(OSError):
                status.update(now.replace("[", r"\["))

        yield tell, show
