"""The numbers in nginx's configuration fit each other, however many sites there are."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fedse.federation.nginx import nginx_config


@given(st.integers(1, 10_000))
def test_one_address_never_takes_more_than_half_of_the_connections(sites: int):
    told = nginx_config(Path("federation"), host="fed.example", port=9, link_port=10, sites=sites)
    named = r"worker_connections (\d+)", r"limit_conn address (\d+)", r"worker_rlimit_nofile (\d+)"
    connections, requests, files = (int(re.findall(name, told)[0]) for name in named)
    # A request that is passed on has one connection to its sender and one to the SuperLink.
    assert 2 * (2 * requests) <= connections
    assert connections <= files / 2
    assert requests >= 6 * sites
