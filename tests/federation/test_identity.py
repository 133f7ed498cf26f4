"""Who may take part, and in what: the list of attempts that are refused by our own code.

Those that need a real SuperLink are in tests/system/test_who_gets_in.py. Every attempt here
begins with something that would have been accepted, so what refuses it is the one thing changed.
"""

import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedse.errors import ConfigError, FedSEError, MachineError
from fedse.federation import folder
from fedse.federation.enrolment import request_enrolment
from fedse.federation.invite import Invite
from fedse.federation.keys import make_identity, make_node_key
from fedse.signed import public_hex
from tests.federation.scene import BUNDLE, HOURS, NOW, Scene

DAY = 24 * 3600


def expired(scene: Scene) -> None:
    scene.read(now=NOW + HOURS * 3600)


def unheard_fingerprint(scene: Scene) -> None:
    scene.read(trusted="")


def signed_by_another(scene: Scene) -> None:
    scene.read(file=scene.forged())


def another_server(scene: Scene) -> None:
    """The whole file is the forger's: other address, other authority, a right signature."""
    scene.read(file=scene.forged(server="evil.example.org:8443", ca="evil"))


def signature_of_another_purpose(scene: Scene) -> None:
    whole = json.loads(scene.invite.read_text())
    secret = (scene.federation.path / "keys" / "signing.key").read_bytes()
    bare = json.dumps(whole["invite"], sort_keys=True, separators=(",", ":")).encode()
    whole["signature"] = Ed25519PrivateKey.from_private_bytes(secret).sign(bare).hex()
    scene.invite.write_text(json.dumps(whole))
    scene.read()


def no_signature(scene: Scene) -> None:
    whole = json.loads(scene.invite.read_text())
    scene.invite.write_text(json.dumps({"invite": whole["invite"]}))
    scene.read()


def unknown_field(scene: Scene) -> None:
    scene.read(file=scene.lying(hooks="http://example.org/run"))


def newer_version(scene: Scene) -> None:
    scene.read(file=scene.lying(version=2))


def endless_file(scene: Scene) -> None:
    scene.invite.write_text(" " * 300_000 + scene.invite.read_text())
    scene.read()


def wrong_spec(scene: Scene) -> None:
    scene.join(invite=scene.read(file=scene.lying(spec="0" * 64)))


def another_base_model(scene: Scene) -> None:
    scene.join(base="tiny-five")


def wrong_agreed_digest(scene: Scene) -> None:
    scene.join(invite=scene.read(file=scene.lying(agreed="0" * 64)))


def settings_that_were_not_agreed(scene: Scene) -> None:
    settings = scene.read().settings
    settings["train"] = {"lr": 1.0}
    scene.join(invite=scene.read(file=scene.lying(settings=settings)))


def members_that_were_not_agreed(scene: Scene) -> None:
    scene.join(invite=scene.read(file=scene.lying(members=["alpha", "beta", "mallory"])))


def changed_bundle(scene: Scene) -> None:
    scene.join(bundle="c" * 64)


def replayed_enrolment(scene: Scene) -> None:
    request = scene.request(scene.join())
    scene.enrol(request)
    scene.enrol(request)


def replayed_number_with_a_new_key(scene: Scene) -> None:
    scene.enrol(scene.request(scene.join()))
    scene.enrol(scene.request(scene.join(home="second")))


def replaced_invitation(scene: Scene) -> None:
    request = scene.request(scene.join())
    scene.invite_again()
    scene.enrol(request)


def late_enrolment(scene: Scene) -> None:
    scene.enrol(scene.request(scene.join()), now=NOW + 30 * DAY)


def another_sites_name(scene: Scene) -> None:
    """Beta was invited; alpha enrols its own key as beta's."""
    request = scene.request(scene.join())
    scene.invite_again("beta")
    scene.enrol(request.model_copy(update={"site": "beta"}))


def unknown_site(scene: Scene) -> None:
    request = scene.request(scene.join())
    scene.enrol(request.model_copy(update={"site": "mallory"}))


def another_federations_request(scene: Scene) -> None:
    request = scene.request(scene.join())
    scene.enrol(request.model_copy(update={"federation": "banks"}))


def a_key_one_does_not_hold(scene: Scene) -> None:
    """Somebody else's public key with one's own proof."""
    request = scene.request(scene.join())
    other = make_node_key(scene.folder / "other").public.read_text().strip()
    scene.enrol(request.model_copy(update={"public_key": other}))


def changed_number(scene: Scene) -> None:
    request = scene.request(scene.join())
    scene.enrol(request.model_copy(update={"nonce": "f" * 16}))


def one_key_for_two_sites(scene: Scene) -> None:
    home = scene.join()
    scene.enrol(scene.request(home))
    invite = scene.read(file=scene.invite_again("beta"))
    scene.enrol(request_enrolment(invite, home.key.private, home.key.public))


def revoked_request(scene: Scene) -> None:
    request = scene.request(scene.join())
    folder.revoke(scene.federation, "alpha")
    scene.enrol(request)


def revoked_key(scene: Scene) -> None:
    """Invited again after its revocation, a site comes back with the key that was revoked."""
    home = scene.join()
    scene.enrol(scene.request(home))
    folder.revoke(scene.federation, "alpha")
    invite = scene.read(file=scene.invite_again())
    scene.enrol(request_enrolment(invite, home.key.private, home.key.public))


def invitation_of_an_enrolled_site(scene: Scene) -> None:
    scene.enrol(scene.request(scene.join()))
    scene.invite_again()


def certificate_of_another_host(scene: Scene) -> None:
    shake_hands(scene.federation.identity.ca, scene, "evil.example.org")


def certificate_of_another_authority(scene: Scene) -> None:
    shake_hands(make_identity(scene.folder / "other").ca, scene, "fed.example.org")


def shake_hands(ca: Path, scene: Scene, host: str) -> None:
    """A TLS handshake in memory, as a SuperNode that was given `ca` would do it."""
    client_side = ssl.create_default_context(cafile=ca)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = scene.federation.identity
    server_side.load_cert_chain(identity.certificate, identity.key)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    client.do_handshake()


Attempt = Callable[[Scene], None]
ATTEMPTS: dict[str, tuple[Attempt, type[Exception], str]] = {
    "an invitation that expired": (expired, ConfigError, "expired"),
    "a fingerprint nobody confirmed": (
        unheard_fingerprint,
        ConfigError,
        "ask the coordinator whether",
    ),
    "an invitation of another signer": (signed_by_another, ConfigError, "is signed by the key"),
    "an invitation to another server": (another_server, ConfigError, "is signed by the key"),
    "a signature made for something else": (
        signature_of_another_purpose, ConfigError, "changed after it was signed",
    ),
    "an invitation without a signature": (no_signature, ConfigError, "is not an invitation"),
    "a signed field nobody knows": (unknown_field, ConfigError, "hooks"),
    "an invitation of a newer version": (newer_version, ConfigError, "version 2"),
    "an invitation without end": (endless_file, ConfigError, "is not an invitation"),
    "a wrong spec identity": (wrong_spec, MachineError, "base model"),
    "another base model installed": (another_base_model, MachineError, "base model"),
    "a wrong agreed digest": (wrong_agreed_digest, ConfigError, "does not follow"),
    "settings that were not agreed": (settings_that_were_not_agreed, ConfigError, "not follow"),
    "members that were not agreed": (members_that_were_not_agreed, ConfigError, "not follow"),
    "a changed app bundle": (changed_bundle, ConfigError, "app bundle"),
    "a replayed enrolment": (replayed_enrolment, ConfigError, "already used"),
    "a used number with a new key": (replayed_number_with_a_new_key, ConfigError, "already used"),
    "a replaced invitation": (replaced_invitation, ConfigError, "replaced by a newer"),
    "an enrolment after the invitation expired": (late_enrolment, ConfigError, "has expired"),
    "another site's name": (another_sites_name, ConfigError, "already used or replaced"),
    "a site nobody knows": (unknown_site, ConfigError, "is not a site of clinics"),
    "another federation's request": (another_federations_request, ConfigError, "'banks'"),
    "a key the sender does not hold": (a_key_one_does_not_hold, ConfigError, "not signed by"),
    "a changed number": (changed_number, ConfigError, "already used or replaced"),
    "one key for two sites": (one_key_for_two_sites, ConfigError, "already on the list, for alpha"),
    "a revoked site's request": (revoked_request, ConfigError, "was revoked"),
    "a revoked site's key": (revoked_key, ConfigError, "already on the list"),
    "a second key for an enrolled site": (
        invitation_of_an_enrolled_site, ConfigError, "already enrolled",
    ),
    "a server certificate for another host": (
        certificate_of_another_host, ssl.SSLCertVerificationError, "Hostname mismatch",
    ),
    "a server certificate of another authority": (
        certificate_of_another_authority, ssl.SSLCertVerificationError, "local issuer",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attempt", "error", "said"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_it_is_refused(scene: Scene, attempt: Attempt, error: type[Exception], said: str):
    with pytest.raises(error, match=said) as refusal:
        attempt(scene)
    if isinstance(refusal.value, FedSEError):
        assert refusal.value.hint, "it says what to do next"


def test_the_list_is_long_enough():
    assert len(ATTEMPTS) >= 20


def test_unchanged_it_is_accepted(scene: Scene):
    """Else every refusal above could be one for another reason."""
    shake_hands(scene.federation.identity.ca, scene, "fed.example.org")
    home = scene.join(bundle=BUNDLE)
    scene.enrol(scene.request(home))
    assert scene.federation.sites.members["alpha"].state == "enrolled"


def other(value: object) -> object:
    """Another value of the same kind."""
    match value:
        case str():
            return value + "0"
        case int():
            return value + 1
        case list():
            return [*value, "mallory"]
        case dict():
            return {**value, "train": {"lr": 1.0}}
    raise AssertionError(f"no way to change {value!r}")


@pytest.mark.parametrize("field", Invite.model_fields)
def test_no_signed_field_can_be_changed(scene: Scene, field: str):
    whole = json.loads(scene.invite.read_text())
    whole["invite"][field] = other(whole["invite"][field])
    scene.invite.write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match="changed after it was signed"):
        scene.read()


@pytest.mark.parametrize("field", Invite.model_fields)
def test_no_signed_field_can_be_left_out(scene: Scene, field: str):
    whole = json.loads(scene.invite.read_text())
    del whole["invite"][field]
    scene.invite.write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match="changed after it was signed"):
        scene.read()


def test_a_signers_key_swapped_for_ones_own_does_not_verify(scene: Scene):
    whole = json.loads(scene.invite.read_text())
    whole["invite"]["signer"] = public_hex(Ed25519PrivateKey.generate())
    scene.invite.write_text(json.dumps(whole))
    with pytest.raises(ConfigError, match="changed after it was signed"):
        scene.read()


def test_order_and_spaces_of_the_file_do_not_matter(scene: Scene):
    whole = json.loads(scene.invite.read_text())
    turned = dict(reversed(whole["invite"].items()))
    scene.invite.write_text(json.dumps({"signature": whole["signature"], "invite": turned}))
    assert scene.read().site == "alpha"
