"""The way out of a site: through an HTTPS proxy, if the environment names one.

Flower's client reads the same variables; here they are only read to tell what it will do.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

VARIABLES = ("https_proxy", "all_proxy")
"""In either case; the first that is set counts, and lower case before upper case."""


def proxy_to(server: str, environ: Mapping[str, str]) -> str:
    """The proxy, without a password, through which HOST:PORT is reached; empty = directly."""
    proxy = next(filter(None, (_value(name, environ) for name in VARIABLES)), "")
    if not proxy or proxy_bypass(server, {"no": _value("no_proxy", environ)}):
        return ""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _value(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name) or environ.get(name.upper(), "")
