"""The compose files: they follow the specification, and no service has more than it needs."""

import copy
import json
from importlib.resources import files

import pytest

from tests.needs import needs

needs("yaml", "check_jsonschema")

import jsonschema

from tests.deploy.rendered import Document, compose

NAMES = ("coordinator", "site", "site-engine")
SPECIFICATION = json.loads(
    (files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text()
)
RIGHTS = {
    "user": "10001:10001",
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
}
FORBIDDEN = {"cap_add", "devices", "ipc", "network_mode", "pid", "privileged", "userns_mode"}
BOUNDS = {"mem_limit", "pids_limit", "restart"}
# A site's service as the file beside it extends it has nothing of its own to start.
SERVICES = [
    (name, service)
    for name in NAMES
    for service, settings in compose(name)["services"].items()
    if "image" in settings
]
each_service = pytest.mark.parametrize(("name", "service"), SERVICES)


def complaints(service: Document) -> set[str]:
    """What a service may do that it must not, by the key that says so."""
    found = {key for key, value in RIGHTS.items() if service.get(key) != value}
    found |= FORBIDDEN & set(service) | BOUNDS - set(service)
    if not any(place.startswith("/tmp:") for place in service.get("tmpfs", [])):
        found.add("tmpfs")
    if any(one["type"] == "bind" and not one.get("read_only") for one in service["volumes"]):
        found.add("volumes")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_allows_it(name: str):
    jsonschema.validate(compose(name), SPECIFICATION)


def test_the_specification_would_refuse():
    wrong = compose("site")
    wrong["services"]["site"]["readonly"] = True
    with pytest.raises(jsonschema.ValidationError, match="readonly"):
        jsonschema.validate(wrong, SPECIFICATION)


def test_there_are_three_services():
    assert [service for _, service in SERVICES] == ["coordinator", "site", "engine"]


@each_service
def test_every_service_is_without_rights(name: str, service: str):
    assert complaints(compose(name)["services"][service]) == set()


@pytest.mark.parametrize("key", [*RIGHTS, *sorted(BOUNDS), "tmpfs"])
def test_a_weaker_service_would_be_noticed(key: str):
    weaker = copy.deepcopy(compose("site")["services"]["site"])
    del weaker[key]
    assert complaints(weaker) == {key}


def test_a_privileged_service_would_be_noticed():
    weaker = {**compose("site")["services"]["site"], "privileged": True}
    weaker["volumes"] = [{"type": "bind", "source": "/", "target": "/host"}]
    assert complaints(weaker) == {"privileged", "volumes"}


@pytest.mark.parametrize("name", ["coordinator", "site"])
def test_what_is_written_is_on_a_volume(name: str):
    service = compose(name)["services"][name]
    writable = [one for one in service["volumes"] if not one.get("read_only")]
    assert [(one["type"], one["target"]) for one in writable] == [("volume", "/data")]
    assert writable[0]["source"] in compose(name)["volumes"]
    (place,) = service["tmpfs"]
    assert "noexec" in place


def test_only_the_coordinators_proxy_is_reached():
    opened = {s: compose(n)["services"][s].get("ports", []) for n, s in SERVICES}
    assert opened == {
        "coordinator": ["${FEDSE_ADDRESS:-0.0.0.0}:8443:8443"],
        "site": [],
        "engine": [],
    }
    engine = compose("site-engine")
    assert engine["networks"] == {"engine": {"internal": True}}
    assert engine["services"]["engine"]["networks"] == ["engine"]


@each_service
def test_an_ending_takes_as_long_as_it_needs(name: str, service: str):
    """fedse ends what it has started within 30 s, twice END_SECONDS."""
    settings = compose(name)["services"][service]
    assert settings.get("stop_grace_period", "60s") == "60s"
    assert settings["healthcheck"]["retries"] == 3


def test_what_never_ends_by_itself_comes_back_after_a_restart_of_the_machine():
    """Docker starts `on-failure` again only while it runs; the coordinator ends with the rounds."""
    restart = {service: compose(name)["services"][service]["restart"] for name, service in SERVICES}
    assert restart == {
        "coordinator": "on-failure:12",
        "site": "unless-stopped",
        "engine": "unless-stopped",
    }
