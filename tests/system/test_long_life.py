"""A certificate is renewed, a key replaced, a site added and one let go while rounds go on.

Two sites, later three; nothing is stopped by hand, and no round waits for its deadline.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.needs import needs

needs("flwr", "torch", "nginx")

from fedse.cli.connections import sites_now
from fedse.federation import folder, renewal
from fedse.federation.expiry import served_until
from fedse.federation.home import ELSEWHERE, open_home
from fedse.federation.rotation import begin_rotation, next_key, read_either
from fedse.flower.ops.serve_federation import link_address, sync_nodes
from tests.system.field import Field, field
from tests.system.kills import SITES, experiment

ROUNDS, DAYS = 4, 200
# Only ends what hangs.
PATIENCE = 900.0
# Longer than the whole test may take: who waits for it is found out.
DEADLINE = 3000.0
SPARE = "spare-1"
EXPERIMENT = f"""{experiment(ROUNDS, SITES[:2], deadline=DEADLINE, min_clients=1)}
[[clients]]
name = "{SPARE}"
env = "{ELSEWHERE}"
"""


def held(here: Field, site: str, round: int) -> None:
    """The site is at work in this round, and stays so."""
    here.wait(PATIENCE, until=here.hold(site, "train.started", round))


def shown(here: Field, address: str) -> datetime | None:
    return served_until(address, here.federation.identity.ca)


@pytest.mark.federated
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_keys_and_members_change_while_rounds_go_on(tmp_path: Path):
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {what}", file=sys.__stderr__, flush=True)

    with field(tmp_path, EXPERIMENT, light=True) as here:
        alpha, beta = here.sites
        card = here.federation.card
        proxy, link = f"localhost:{card.port}", link_address(here.federation)
        here.start_server()
        for site in here.sites:
            here.start_site(site)

        held(here, alpha, 1)
        tell("round 1: alpha at work")
        before = shown(here, proxy)
        ends = renewal.renew(here.federation, now=datetime.now(UTC), days=DAYS, new_key=True)
        here.wait(PATIENCE, until=lambda: shown(here, proxy) == ends == shown(here, link))
        tell("certificate renewed: nginx and the SuperLink show it")
        assert before
        assert (before - ends).days >= 365 - DAYS - 1
        here.let_go()

        held(here, beta, 2)
        tell("round 2: beta at work")
        home = open_home(here.home(beta))
        old = home.key.public.read_text()
        renewal.rotate(here.federation, read_either(begin_rotation(home)))
        assert sync_nodes(here.federation)
        tell("beta's new key accepted")
        here.enrol(SPARE, here.config.client(alpha))
        assert sync_nodes(here.federation)
        here.start_site(SPARE)
        here.wait(PATIENCE, until=lambda: sites_now(here.federation)[SPARE]["doing"] == "idle")
        tell("a third site has taken the spare place")
        here.let_go()
        here.wait(PATIENCE, until=lambda: next_key(home.path) is None)
        tell("beta goes on with its new key")
        assert home.key.public.read_text() != old

        held(here, beta, 3)
        tell("round 3: beta at work")
        folder.revoke(here.federation, beta)
        assert sync_nodes(here.federation)
        revoked = time.monotonic()
        here.wait(PATIENCE, until=lambda: len(here.results()) >= 3)
        tell(f"round 3 committed {time.monotonic() - revoked:.1f} s after beta was revoked")
        here.let_go()

        assert here.wait_for_end(PATIENCE) == 0, here.last_words()
        tell("finished")
        results = here.results()
    assert [r.voters for r in results] == [(alpha, beta)] * 2 + [(alpha, SPARE)] * 2
    excluded = [[(e.client, e.kind) for e in r.excluded] for r in results]
    assert excluded == [[]] * 2 + [[(beta, "revoked")]] * 2
    assert sum(r.seconds for r in results) < DEADLINE
