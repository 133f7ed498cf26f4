"""The charts: Helm and Kubernetes accept them; no pod has more rights or doors than it needs."""

import copy
from collections.abc import Callable

import pytest

from tests.needs import needs

needs("yaml", "kubernetes_validate")

from fedse._version import __version__
from tests.deploy.rendered import (
    CASES,
    COORDINATOR_HEALTH,
    FIRST,
    MUCH,
    SITE_HEALTH,
    Document,
    compose,
    helm,
    of_kind,
    pod_of,
    rendered,
)
from tests.packaging.shipped import unknown_options

KUBERNETES = "1.31"
"""The first with podFailurePolicy for good."""
WRITABLE = {"/data", "/tmp", "/adapters"}
VOLUMES = {"persistentVolumeClaim", "emptyDir", "configMap", "secret"}
each_case = pytest.mark.parametrize(
    ("side", "values"), CASES, ids=[f"{side}-{len(values)}" for side, values in CASES]
)
each_side = pytest.mark.parametrize("side", FIRST)


def complaints(pod: Document) -> set[str]:
    """What a pod may do that it must not; Kubernetes calls the opposite `restricted`."""
    found = {f"{key}" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)}
    whole = pod.get("securityContext", {})
    if not (whole.get("runAsNonRoot") is True and whole.get("runAsUser", 0) >= 10000):
        found.add("root")
    if whole.get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.add("seccomp")
    if whole.get("fsGroupChangePolicy") != "OnRootMismatch":
        found.add("mode of keys")
    if pod.get("automountServiceAccountToken") is not False:
        found.add("token")
    found |= {"volume" for one in pod["volumes"] if not (set(one) - {"name"}) <= VOLUMES}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        found |= container_complaints(container)
    return found


def container_complaints(container: Document) -> set[str]:
    own, found = container.get("securityContext", {}), set()
    if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
        found.add("escalation")
    if own.get("runAsNonRoot") is not True or "runAsUser" in own:
        found.add("root")
    if own.get("readOnlyRootFilesystem") is not True:
        found.add("writable root")
    if own.get("capabilities") != {"drop": ["ALL"]}:
        found.add("capabilities")
    if "memory" not in container.get("resources", {}).get("limits", {}):
        found.add("memory")
    return found


@each_case
def test_kubernetes_accepts_every_manifest(side: str, values: tuple[str, ...]):
    # Here, as it costs whoever collects the tests 5 CPU-s.
    import kubernetes_validate

    documents = rendered(side, values)
    assert len(documents) >= 3
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_kubernetes_would_complain():
    import kubernetes_validate

    (account,) = of_kind(rendered("site", FIRST["site"]), "ServiceAccount")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**account, "automount": 1}, KUBERNETES, strict=True)


@each_case
def test_every_container_is_without_rights(side: str, values: tuple[str, ...]):
    assert complaints(pod_of(rendered(side, values))) == set()


WEAKENED: dict[str, Callable[[Document], object]] = {
    "root": lambda pod: pod["containers"][0]["securityContext"].update(runAsUser=0),
    "writable root": lambda pod: pod["initContainers"][0]["securityContext"].pop(
        "readOnlyRootFilesystem"
    ),
    "capabilities": lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(
        add=["NET_ADMIN"]
    ),
    "escalation": lambda pod: pod["containers"][0]["securityContext"].update(privileged=True),
    "seccomp": lambda pod: pod["securityContext"].pop("seccompProfile"),
    "token": lambda pod: pod.pop("automountServiceAccountToken"),
    "volume": lambda pod: pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
    "hostNetwork": lambda pod: pod.update(hostNetwork=True),
    "memory": lambda pod: pod["containers"][0]["resources"].pop("limits"),
    "mode of keys": lambda pod: pod["securityContext"].pop("fsGroupChangePolicy"),
}


@pytest.mark.parametrize("what", WEAKENED)
def test_a_weaker_pod_would_be_noticed(what: str):
    pod = copy.deepcopy(pod_of(rendered("coordinator", FIRST["coordinator"])))
    WEAKENED[what](pod)
    assert complaints(pod) == {what}


@each_case
def test_what_is_written_is_on_a_volume(side: str, values: tuple[str, ...]):
    """Mounted twice is what a container may write; the rest is read-only."""
    pod = pod_of(rendered(side, values))
    kinds = {one["name"]: set(one) - {"name"} for one in pod["volumes"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
        writable = {path for path, one in mounts.items() if not one.get("readOnly")}
        assert {"/data", "/tmp"} <= writable <= WRITABLE
        assert kinds[mounts["/data"]["name"]] == {"persistentVolumeClaim"}
        assert kinds[mounts["/tmp"]["name"]] == {"emptyDir"}
        for secret in ("configMap", "secret"):
            held = {name for name, kind in kinds.items() if kind == {secret}}
            assert all(one.get("readOnly") for one in mounts.values() if one["name"] in held)
    mounted = {one["name"] for c in pod["initContainers"] for one in c["volumeMounts"]}
    assert mounted == set(kinds)


@each_side
def test_what_it_runs_exists(side: str, capsys: pytest.CaptureFixture[str]):
    pod = pod_of(rendered(side, (*FIRST[side], *MUCH[side])))
    words = pod["containers"][0]["args"]
    assert unknown_options(words, capsys) == set()
    assert words[3].startswith("/data/")
    first = pod["initContainers"][0]["args"]
    line = f"{first[0]} {' '.join(first[2:])}".split(" exec fedse ")[1]
    made = [word for word in line.split() if word != '"$@"']
    assert unknown_options(made, capsys) == set()
    assert words[3] in made


@each_side
def test_health_is_asked_as_in_the_compose_file(side: str):
    expected = {"coordinator": COORDINATOR_HEALTH, "site": SITE_HEALTH}[side]
    assert compose(side)["services"][side]["healthcheck"]["test"] == ["CMD", *expected]
    running = pod_of(rendered(side, (*FIRST[side], "mode=run")))["containers"][0]
    for probe in ("startupProbe", "livenessProbe"):
        assert running[probe]["exec"]["command"] == expected
    resting = pod_of(rendered(side, FIRST[side]))["containers"][0]
    assert not any("Probe" in key for key in resting)
    assert resting["command"] == ["tini", "--", "sleep", "infinity"]


@each_case
def test_a_coordinator_calls_nobody_and_nobody_calls_a_site(side: str, values: tuple[str, ...]):
    (policy,) = of_kind(rendered(side, values), "NetworkPolicy")
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress" if side == "coordinator" else "ingress"] == []
    if side == "coordinator":
        ports = [[port["port"] for port in rule["ports"]] for rule in spec["ingress"]]
        scraped = "metrics.scraped=true" in values
        assert ports == [["sites"], ["metrics"]][: 2 if scraped else 1]
        assert not scraped or spec["ingress"][1]["from"]
    else:
        ports = [[port["port"] for port in rule["ports"]] for rule in spec["egress"]]
        served = any(value.startswith("networkPolicy.engine") for value in values)
        assert ports == [[53, 53], [8443], [8000]][: 3 if served else 2]
    pod = pod_of(rendered(side, values))
    opened = [port["containerPort"] for c in pod["containers"] for port in c.get("ports", [])]
    assert set(opened) <= ({8443, 9464} if side == "coordinator" else set())
    assert bool(of_kind(rendered(side, values), "Service")) is (side == "coordinator")


@each_side
def test_data_outlive_the_release(side: str):
    (claim,) = of_kind(rendered(side, FIRST[side]), "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_a_federation_that_has_ended_is_not_started_again():
    (job,) = of_kind(rendered("coordinator", CASES[2][1]), "Job")
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    fails = job["spec"]["podFailurePolicy"]["rules"][0]
    assert (fails["action"], fails["onExitCodes"]["values"]) == ("FailJob", [2])


@each_side
def test_an_image_by_digest_is_named_by_it(side: str):
    pod = pod_of(rendered(side, (*FIRST[side], *MUCH[side])))
    images = {one["image"] for one in [*pod["initContainers"], *pod["containers"]]}
    assert images == {f"fedse-{side}@sha256:{'0' * 64}"}
    by_tag = pod_of(rendered(side, FIRST[side]))["containers"][0]["image"]
    assert by_tag == f"fedse-{side}:{__version__}"


@each_side
def test_helm_has_nothing_to_say(side: str):
    done = helm("lint", side, FIRST[side], "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("side", "value"),
    [
        ("coordinator", "mode=stop"),
        ("coordinator", "image.digest=latest"),
        ("coordinator", "metrics.scraped=true"),
        ("coordinator", "replicas=2"),
        ("coordinator", "host="),
        ("site", "join.fingerprint="),
        ("site", "join.base=../secrets"),
        ("site", "storage.accessMode=ReadWriteMany"),
    ],
)
def test_a_wrong_value_is_refused(side: str, value: str):
    assert helm("template", side, (*FIRST[side], value)).returncode != 0
