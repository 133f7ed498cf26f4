"""Replacing a site's key: the request, and how both sides handle it.

The site creates a new key and signs a request with both, which proves to the coordinator that it
holds the enrolled key and the new one. The site uses the old key until the coordinator has accepted
the request, and then the new one; no invitation is needed. A key that was stolen
is revoked instead: a thief can ask for a rotation as well as its owner.
"""

import hashlib
import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from fedse.errors import ConfigError, StoreError, boundary
from fedse.federation.enrolment import (
    Enrolment,
    EnrolmentRequest,
    is_node_signature,
    member_of,
    node_signature,
    require_same_federation,
    require_unused_key,
    with_member,
)
from fedse.federation.home import Home
from fedse.federation.keys import PRESENCE, NodeKey, make_node_key
from fedse.signed import MAX_BYTES
from fedse.store.files import OWNER_ONLY, write_durably
from fedse.store.lock import one_command
from fedse.types import Record, canonical_json

ROTATE_PURPOSE = b"fedse key rotation 1\n"
ROTATION, NEXT = "rotation.json", "next-key"
# Handling the keys takes milliseconds.
KEYS_SECONDS = 10.0


class RotationRequest(Record):
    """What a site sends to its coordinator to have its key replaced."""

    federation: str
    site: str
    old_key: str
    """The enrolled key, in OpenSSH's format."""
    new_key: str
    proof_old: str
    """Signature by the old private key over the four fields above, hex."""
    proof_new: str


def next_key(home: Path) -> NodeKey | None:
    """The key that waits to replace the site's own; None = there is none."""
    files = NodeKey(home / NEXT / "node.key", home / NEXT / "node.pub")
    return files if all(file.is_file() for file in files) else None


def next_presence(home: Path, key: NodeKey) -> Path:
    """Exists once the server has accepted a node with this key.

    Each key has its own file, so a node that still runs with an earlier key cannot write it.
    """
    return home / f"node-{hashlib.sha256(key.public.read_bytes()).hexdigest()[:16]}.id"


def begin_rotation(home: Home) -> Path:
    """The request for the coordinator; a second call does not create another key."""
    with _alone(home.path):
        _finish_rotation(home)
        return _request_rotation(home)


def _request_rotation(home: Home) -> Path:
    new = make_node_key(home.path / NEXT)
    fields = {
        "federation": home.card.federation,
        "site": home.card.site,
        "old_key": home.key.public.read_text().strip(),
        "new_key": new.public.read_text().strip(),
    }
    message = ROTATE_PURPOSE + canonical_json(fields)
    request = RotationRequest(
        **fields,
        proof_old=node_signature(home.key.private, message),
        proof_new=node_signature(new.private, message),
    )
    text = json.dumps(request.model_dump(mode="json"), indent=2) + "\n"
    write_durably(home.path / ROTATION, text.encode())
    return home.path / ROTATION


def finish_rotation(home: Home) -> bool:
    """Whether a new key that the server has accepted became the site's own.

    A node that is running with it continues. If the process is killed midway, the step is repeated,
    and both keys are the new one.
    """
    if next_key(home.path) is None:
        return False
    with _alone(home.path):
        return _finish_rotation(home)


def _alone(home: Path) -> AbstractContextManager[None]:
    """No other command handles the keys: one that ends a rotation could remove the next key."""
    lock, doing = home / ".rotation.lock", f"handling the keys in {home}"
    return one_command(lock, seconds=KEYS_SECONDS, doing=doing)


def _finish_rotation(home: Home) -> bool:
    new = next_key(home.path)
    if new is None:
        return False
    with boundary(StoreError, f"keys in {home.path}"):
        seen = next_presence(home.path, new)
        if not seen.exists():
            return False
        write_durably(home.key.private, new.private.read_bytes(), mode=OWNER_ONLY)
        write_durably(home.key.public, new.public.read_bytes(), mode=OWNER_ONLY)
        write_durably(home.path / PRESENCE, seen.read_bytes())
        (home.path / ROTATION).unlink(missing_ok=True)
        shutil.rmtree(home.path / NEXT)
    return True


def forget_presences(home: Path) -> None:
    """Files of keys that became the site's own are gone; call it while no node is running."""
    new = next_key(home)
    waiting = next_presence(home, new) if new else None
    for file in home.glob("node-*.id"):
        if file != waiting:
            file.unlink(missing_ok=True)


def read_either(path: Path) -> EnrolmentRequest | RotationRequest:
    """A request for enrolment or for a new key. It is read once, because it may be a pipe."""
    with boundary(ConfigError, f"request {path}"), path.open("rb") as file:
        data = file.read(MAX_BYTES)
    if b'"new_key"' in data:
        with boundary(ConfigError, f"rotation request {path}"):
            return RotationRequest.model_validate_json(data, strict=True)
    again = "ask the site to send its enrolment.json again, unchanged"
    with boundary(ConfigError, f"enrolment request {path}", hint=again):
        return EnrolmentRequest.model_validate_json(data, strict=True)


def with_rotation(enrolment: Enrolment, request: RotationRequest) -> Enrolment:
    """The site's new key is on the list and its old one is never accepted again, or it is refused.

    A request that was accepted before changes nothing.
    """
    require_same_federation(enrolment, request.federation)
    site, member = request.site, member_of(enrolment, request.site)
    if member.state != "enrolled":
        raise ConfigError(
            f"{site} is {member.state}, only an enrolled site has a key to replace",
            hint=f"fedse federation invite {site}",
        )
    _require_proofs(request)
    if member.public_key == request.new_key and request.old_key in member.former_keys:
        return enrolment
    if member.public_key != request.old_key:
        raise ConfigError(
            f"the request of {site} is signed with a key that is not the enrolled one",
            hint=f"ask the site for: fedse site rotate; or: fedse federation revoke {site}",
        )
    again = "ask the site to remove next-key and for: fedse site rotate"
    require_unused_key(enrolment, site, request.new_key, hint=again)
    former = (*member.former_keys, request.old_key)
    changes = {"public_key": request.new_key, "former_keys": former}
    return with_member(enrolment, site, member.model_copy(update=changes))


def _require_proofs(request: RotationRequest) -> None:
    fields = request.model_dump(mode="json", exclude={"proof_old", "proof_new"})
    message = ROTATE_PURPOSE + canonical_json(fields)
    pairs = ((request.old_key, request.proof_old), (request.new_key, request.proof_new))
    for name, (key, proof) in zip(("old", "new"), pairs, strict=True):
        if not is_node_signature(key, message, proof):
            raise ConfigError(
                f"the request of {request.site} is not signed by the {name} key in it",
                hint=f"ask the site to send its {ROTATION} again, unchanged",
            )
