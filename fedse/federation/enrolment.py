"""Who may take part: the coordinator's list, and a site's request to be added to it.

A request is a node's public key, the invitation's number and a proof by the private key over
both. The number is valid for one enrolment; a key is valid for one site. All changes are functions
from one list to the next, so a refused request changes nothing.
"""

import hashlib
import json
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedse.errors import ConfigError, MachineError, StoreError, boundary
from fedse.federation.invite import Invite
from fedse.store.files import OWNER_ONLY, from_backup, write_durably
from fedse.suggest import did_you_mean
from fedse.types import Record, canonical_json

ENROL_PURPOSE = b"fedse enrolment 1\n"

State = Literal["not invited", "invited", "enrolled", "revoked"]


class EnrolmentRequest(Record):
    """Everything a site sends to its coordinator before first contact."""

    federation: str
    site: str
    nonce: str
    public_key: str
    """P-384 in OpenSSH's format, as Flower reads it."""
    proof: str
    """Signature by the private key over all other fields, hex."""


class Member(Record):
    """One site on the list."""

    state: State = "not invited"
    nonce: str = ""
    """sha256 of the number in the newest invitation; empty once it has been used."""
    expires: int = 0
    public_key: str = ""
    former_keys: tuple[str, ...] = ()
    """Revoked keys, which are never accepted again."""


class Enrolment(Record):
    """The list of a federation."""

    federation: str
    members: dict[str, Member]


def first_list(federation: str, sites: tuple[str, ...]) -> Enrolment:
    return Enrolment(federation=federation, members={site: Member() for site in sites})


def request_enrolment(invite: Invite, private_key: Path, public_key: Path) -> EnrolmentRequest:
    """The request of the site that holds `private_key`."""
    fields = {
        "federation": invite.federation,
        "site": invite.site,
        "nonce": invite.nonce,
        "public_key": public_key.read_text().strip(),
    }
    proof = node_signature(private_key, ENROL_PURPOSE + canonical_json(fields))
    return EnrolmentRequest(**fields, proof=proof)


def node_signature(private_key: Path, message: bytes) -> str:
    """The signature of `message` by a node's key, hex."""
    with boundary(MachineError, f"node key {private_key}"):
        key = load_ssh_private_key(private_key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise MachineError(f"{private_key} is not a P-384 key", hint=f"remove {private_key}")
        return key.sign(message, ec.ECDSA(hashes.SHA384())).hex()


def is_node_signature(public_key: str, message: bytes, signature: str) -> bool:
    """Whether the P-384 key, in OpenSSH's format, signed exactly this message."""
    try:
        key = load_ssh_public_key(public_key.encode())
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
            return False
        key.verify(bytes.fromhex(signature), message, ec.ECDSA(hashes.SHA384()))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False
    return True


def with_invitation(enrolment: Enrolment, site: str, *, nonce: str, expires: int) -> Enrolment:
    """The site may enrol once with this number; an earlier invitation is void."""
    member = member_of(enrolment, site)
    if member.state == "enrolled":
        raise ConfigError(
            f"{site} is already enrolled; it can be invited again once its key is revoked",
            hint=f"fedse federation revoke {site}",
        )
    changes = {"state": "invited", "nonce": _hash(nonce), "expires": expires}
    return with_member(enrolment, site, member.model_copy(update=changes))


def with_enrolment(enrolment: Enrolment, request: EnrolmentRequest, *, now: float) -> Enrolment:
    """The site's key is on the list and its invitation is used up, or the request is refused."""
    require_same_federation(enrolment, request.federation)
    site, member = request.site, member_of(enrolment, request.site)
    again = f"fedse federation invite {site}"
    if member.state == "revoked":
        raise ConfigError(f"{site} was revoked", hint=again)
    if member.nonce != _hash(request.nonce):
        used = "was already used or replaced by a newer one"
        raise ConfigError(f"the invitation of {site} that this request answers {used}", hint=again)
    if now >= member.expires:
        raise ConfigError(f"the invitation of {site} has expired", hint=again)
    _require_proof(request)
    anew = "ask for a new one: fedse site join INVITE --home NEW-FOLDER --env ENV"
    require_unused_key(enrolment, site, request.public_key, hint=anew)
    changes = {"state": "enrolled", "nonce": "", "public_key": request.public_key}
    return with_member(enrolment, site, member.model_copy(update=changes))


def with_revocation(enrolment: Enrolment, site: str) -> Enrolment:
    """The site's key and its open invitation are no longer valid."""
    member = member_of(enrolment, site)
    former = (*member.former_keys, *filter(None, [member.public_key]))
    changes = {"state": "revoked", "nonce": "", "public_key": "", "former_keys": former}
    return with_member(enrolment, site, member.model_copy(update=changes))


def read_list(path: Path) -> Enrolment:
    with boundary(StoreError, f"enrolment list {path}", hint=from_backup(path)):
        return Enrolment.model_validate_json(path.read_bytes())


def write_list(path: Path, enrolment: Enrolment) -> None:
    text = json.dumps(enrolment.model_dump(mode="json"), indent=2) + "\n"
    write_durably(path, text.encode(), mode=OWNER_ONLY)


def member_of(enrolment: Enrolment, site: str) -> Member:
    """The site's entry in the list; an unknown name is refused."""
    if site not in enrolment.members:
        raise ConfigError(
            f"{site!r} is not a site of {enrolment.federation}; its sites are "
            f"{', '.join(sorted(enrolment.members))}{did_you_mean(site, enrolment.members)}",
            hint="fedse federation status",
        )
    return enrolment.members[site]


def with_member(enrolment: Enrolment, site: str, member: Member) -> Enrolment:
    return enrolment.model_copy(update={"members": {**enrolment.members, site: member}})


def revoked_sites(enrolment: Enrolment) -> frozenset[str]:
    """The sites whose keys were revoked and that have not enrolled again."""
    return frozenset(n for n, member in enrolment.members.items() if member.state == "revoked")


def require_same_federation(enrolment: Enrolment, named: str) -> None:
    if named != enrolment.federation:
        raise ConfigError(
            f"a request for {named!r}, this is {enrolment.federation!r}",
            hint="name the folder of that federation: --dir FOLDER",
        )


def require_unused_key(enrolment: Enrolment, site: str, public_key: str, *, hint: str) -> None:
    """No site has this key or ever had it."""
    for name, other in enrolment.members.items():
        if public_key in (other.public_key, *other.former_keys):
            raise ConfigError(
                f"the key in the request of {site} is already on the list, for {name}", hint=hint
            )


def _require_proof(request: EnrolmentRequest) -> None:
    fields = request.model_dump(mode="json", exclude={"proof"})
    message = ENROL_PURPOSE + canonical_json(fields)
    if not is_node_signature(request.public_key, message, request.proof):
        raise ConfigError(
            f"the request of {request.site} is not signed by the key in it",
            hint="ask the site to send its enrolment.json again, unchanged",
        )


def _hash(nonce: str) -> str:
    return hashlib.sha256(nonce.encode()).hexdigest()
