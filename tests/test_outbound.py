"""What is told about a proxy is what the client that Flower uses will do."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.doctor import examine
from fedse.outbound import proxy_to
from tests.needs import needs

PROXIES = ("", "http://proxy:3128", "http://other:8080")
EXEMPT = ("", "*", "localhost", "example.org", "fed.example.org", "other.org,example.org")
SERVERS = ("fed.example.org:8443", "example.org:443", "localhost:8443", "10.0.0.7:8443")
NAMES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@given(
    https=st.sampled_from(PROXIES),
    lower=st.sampled_from(PROXIES),
    both=st.sampled_from(PROXIES),
    exempt=st.sampled_from(EXEMPT),
    server=st.sampled_from(SERVERS),
)
def test_it_is_the_way_that_the_client_takes(
    https: str, lower: str, both: str, exempt: str, server: str
):
    needs("httpx")
    import httpx

    given = {"HTTPS_PROXY": https, "https_proxy": lower, "ALL_PROXY": both, "NO_PROXY": exempt}
    named = {name: value for name, value in given.items() if value}
    with pytest.MonkeyPatch.context() as patch:
        for name in NAMES:
            patch.delenv(name, raising=False)
        for name, value in named.items():
            patch.setenv(name, value)
        told = proxy_to(server, os.environ)
        with httpx.Client() as client:
            way = client._transport_for_url(httpx.URL(f"https://{server}"))
    pool = getattr(way, "_pool")  # noqa: B009  the class has no such name in its types
    taken = getattr(pool, "_proxy_url", None)
    assert told == (f"http://{taken.host.decode()}:{taken.port}" if taken else "")


def test_a_password_is_not_told():
    named = {"HTTPS_PROXY": "http://ada:secret@proxy:3128"}
    assert proxy_to("fed.example.org:8443", named) == "http://proxy:3128"


def test_the_doctor_tells_of_a_proxy_and_warns_of_one_that_no_site_can_use(tmp_path):
    def told(**named: str) -> list[tuple[str, str]]:
        found = examine(tmp_path, named, ports=())
        return [(one.status, one.what) for one in found if "proxy" in one.what]

    assert told() == []
    reaches = "a site here reaches its server through the proxy http://proxy:3128"
    assert told(HTTPS_PROXY="http://proxy:3128") == [("ok", reaches)]
    cannot = "a site here cannot use the proxy socks5://proxy:1080"
    assert told(ALL_PROXY="socks5://proxy:1080") == [("warn", cannot)]
