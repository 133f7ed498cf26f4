"""A federation of two sites on a disk, with the model that comes with the package; no network."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedse.config.file import dump_config
from fedse.config.schema import Config
from fedse.federation import folder
from fedse.federation.enrolment import EnrolmentRequest
from fedse.federation.folder import Card, Federation, open_federation
from fedse.federation.home import Home, agreed_config, join
from fedse.federation.invite import INVITATION, Invite, read_invite
from fedse.federation.rotation import read_either
from fedse.signed import public_hex
from fedse.types import canonical_json

# The real time, because TLS asks the real clock whether a certificate is valid.
NOW = int(time.time())
HOURS = 72.0
BUNDLE = "b" * 64
NONCE = "0123456789abcdef"


def config(**changes: object) -> Config:
    clients = [{"name": name, "env": "maze"} for name in ("alpha", "beta")]
    run = {"name": "clinics", "rounds": 3}
    return Config.model_validate({"run": run, "clients": clients, **changes})


class Scene(NamedTuple):
    """What an attack has to work with; everything here is real but the time."""

    federation: Federation
    invite: Path
    """Of alpha, just signed."""
    folder: Path

    @property
    def fingerprint(self) -> str:
        return self.federation.card.fingerprint

    def read(self, *, file: Path | None = None, trusted: str | None = None, now: float = NOW):
        expected = self.fingerprint if trusted is None else trusted
        return read_invite(file or self.invite, trusted=expected, now=now)

    def join(
        self,
        *,
        home: str = "home",
        invite: Invite | None = None,
        base: str | None = None,
        bundle: str = BUNDLE,
        roles: Sequence[str] = (),
    ) -> Home:
        offered = invite or self.read()
        own: dict[str, Any] = {"env": "maze", "options": {"prompt": "short"}, "roles": roles}
        agreed = agreed_config(offered, base=base, **own)
        return join(offered, agreed, self.folder / home, bundle=bundle)

    def request(self, home: Home) -> EnrolmentRequest:
        return read_either(home.path / "enrolment.json")

    def enrol(self, request: EnrolmentRequest, *, now: float = NOW + 60) -> None:
        folder.enrol(self.federation, request, now=now)

    def invite_again(self, site: str = "alpha", *, nonce: str = "fedcba9876543210") -> Path:
        return folder.invite(self.federation, site, nonce=nonce, now=NOW, hours=HOURS)

    def forged(self, **changes: Any) -> Path:
        """An invitation with other content, signed rightly with a key of the forger's own."""
        key = Ed25519PrivateKey.generate()
        said = json.loads(self.invite.read_text())["invite"]
        said |= {"signer": public_hex(key), **changes}
        return self._signed(said, key)

    def lying(self, **changes: Any) -> Path:
        """An invitation the coordinator itself signed, with content that is not true."""
        secret = (self.federation.path / "keys" / "signing.key").read_bytes()
        said = json.loads(self.invite.read_text())["invite"] | changes
        return self._signed(said, Ed25519PrivateKey.from_private_bytes(secret))

    def _signed(self, said: dict[str, Any], key: Ed25519PrivateKey) -> Path:
        file = self.folder / "other.invite.json"
        signature = key.sign(INVITATION.purpose + canonical_json(said)).hex()
        file.write_text(json.dumps({"invite": said, "signature": signature}))
        return file


def make_scene(path: Path, *, bundle: str = BUNDLE, **changes: object) -> Scene:
    settings = config(**changes)
    card = Card(
        name="clinics", host="fed.example.org", port=8443, link_port=8000, bundle=bundle,
        fingerprint="",
    )  # fmt: skip
    now = datetime.fromtimestamp(NOW, UTC)
    folder.create(
        path / "federation", settings, given=dump_config(settings), card=card, now=now,
        clock=time.time,
    )  # fmt: skip
    federation = open_federation(path / "federation")
    file = folder.invite(federation, "alpha", nonce=NONCE, now=NOW, hours=HOURS)
    return Scene(federation, file, path)
