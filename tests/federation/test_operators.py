"""With named operators nothing is done without their keys, and the ledger names them."""

import json
import subprocess

import pytest

from tests.needs import needs

needs("flwr", "cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedse.cli.app import start
from fedse.errors import ConfigError
from fedse.federation.operators import FILE, PENDING, VALID_SECONDS, OperatorKey, decision
from fedse.federation.security import FILE as SECURITY
from fedse.ledger.chain import examine
from fedse.ledger.decisions import Decision, Proposal
from fedse.ledger.verifying import verify_ledger
from fedse.ledger.writing import Ledger, read_ledger
from tests.federation.scene import Scene

NOW = 1_800_000_000.0


class Office:
    """A federation and the keys of its operators."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.federation = scene, scene.federation
        self.path, self.keys = scene.federation.path, scene.folder / "keys"
        self.keys.mkdir()

    def name(self, *roles: tuple[str, str], four_eyes: str = "[]") -> None:
        text = f"four_eyes = {four_eyes}\n"
        for name, may in roles:
            key = self.key(name)
            text += f'[operators.{name}]\nroles = {may}\nkey = """\n{key}"""\n'
        (self.path / FILE).write_text(text)

    def key(self, name: str) -> str:
        """The public key of an operator, who has the private one from now on."""
        key, file = Ed25519PrivateKey.generate(), self.keys / name
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return key.public_key().public_bytes(*form).decode()

    def revoke(self, *operator: str, site: str = "alpha") -> int:
        given = ["--as", operator[0], "--key", str(self.keys / operator[-1])] if operator else []
        return start(["federation", "revoke", site, "--dir", str(self.path), *given])

    @property
    def state(self) -> str:
        return self.federation.sites.members["alpha"].state

    def decided(self) -> list[Decision]:
        ledger = self.federation.run / "ledger.jsonl"
        lines = examine(read_ledger(ledger)).entries if ledger.exists() else ()
        return [Decision.model_validate(e.facts) for e in lines if e.kind == "decided"]

    def events(self) -> list[tuple[str, tuple[str, ...]]]:
        file = self.path / SECURITY
        told = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        return [(one["event"], tuple(one.get("by", ()))) for one in told]


@pytest.fixture
def office(scene: Scene) -> Office:
    return Office(scene)


ALL = '["invite", "revoke", "pardon", "amend"]'


def test_without_operators_nobody_is_named_and_none_can_be(office: Office):
    office.key("ada")
    assert office.revoke("ada") != 0
    assert office.state == "invited"
    assert office.revoke() == 0
    assert (office.state, office.decided()) == ("revoked", [])
    assert office.events() == [("operator.refused", ()), ("site.revoked", ())]


def test_an_operator_with_the_role_and_the_key_decides_and_is_on_record(office: Office):
    office.name(("ada", ALL), ("bo", '["invite"]'))
    refused = [(), ("cy", "ada"), ("bo",), ("ada", "bo")]
    assert [office.revoke(*given) for given in refused] == [2] * 4
    assert office.state == "invited"
    assert office.revoke("ada") == 0
    (made,) = office.decided()
    assert (made.proposal.action, made.proposal.subject) == ("revoke", "alpha")
    assert made.fault == ""
    assert office.events() == [("operator.refused", ())] * 4 + [("site.revoked", ("ada",))]
    assert verify_ledger(office.federation.run / "ledger.jsonl").finding is None


def test_four_eyes_are_those_of_two_operators(office: Office, capsys: pytest.CaptureFixture[str]):
    office.name(("ada", ALL), ("bo", ALL), four_eyes='["revoke"]')
    assert [office.revoke("ada"), office.revoke("ada")] == [0, 0]
    assert (office.state, office.decided()) == ("invited", [])
    assert "approved by ada; nothing is done yet" in capsys.readouterr().out
    assert office.revoke("bo") == 0
    (made,) = office.decided()
    assert (office.state, set(made.keys)) == ("revoked", {"ada", "bo"})
    assert list((office.path / PENDING).iterdir()) == []
    waiting = ("approval.waiting", ("ada",))
    assert office.events() == [waiting, waiting, ("site.revoked", ("ada", "bo"))]
    assert office.revoke("bo") == 0
    assert len(office.decided()) == 1, "what was approved once is not approved again"


def test_an_approval_that_somebody_kept_and_put_back_counts_no_more(office: Office):
    office.name(("ada", ALL), ("bo", ALL), four_eyes='["revoke"]')
    assert office.revoke("ada") == 0
    (kept,) = (office.path / PENDING).iterdir()
    text = kept.read_bytes()
    assert office.revoke("bo") == 0
    kept.write_bytes(text)
    office.scene.invite_again()
    assert office.revoke("bo") == 0
    assert (office.state, len(office.decided())) == ("invited", 1)


def approvals(office: Office, name: str, now: float, site: str = "alpha") -> bool:
    given = OperatorKey(name, office.keys / name)
    with decision(office.federation, "pardon", site, given, clock=lambda: now) as made:
        return made.complete


def test_an_approval_is_for_one_site_and_one_week_and_of_somebody_who_still_may(office: Office):
    office.name(("ada", ALL), ("bo", ALL), four_eyes='["pardon"]')
    assert not approvals(office, "ada", NOW)
    assert not approvals(office, "bo", NOW, "beta")
    assert not approvals(office, "bo", NOW + VALID_SECONDS + 1)
    assert approvals(office, "ada", NOW + VALID_SECONDS + 2)
    assert not approvals(office, "ada", NOW)
    text = (office.path / FILE).read_text()
    (office.path / FILE).write_text(text.replace(ALL, '["invite"]', 1))
    assert not approvals(office, "bo", NOW + 1), "the first approval counts no more"


def test_what_failed_is_not_on_record(office: Office):
    office.name(("ada", ALL))
    given = OperatorKey("ada", office.keys / "ada")
    with (
        pytest.raises(ConfigError, match="not in quarantine"),
        decision(office.federation, "pardon", "alpha", given, clock=lambda: NOW),
    ):
        raise ConfigError("not in quarantine")
    assert (office.decided(), office.events()) == ([], [])


def test_an_unknown_site_is_refused_before_anybody_approves(office: Office):
    office.name(("ada", ALL), ("bo", ALL), four_eyes='["revoke"]')
    assert office.revoke("ada", site="../alpha") == 2
    assert not (office.path / PENDING).exists()


@pytest.mark.parametrize("change", ["action", "subject", "signature", "twice", "one key"])
def test_a_decision_that_was_not_signed_is_found_in_the_ledger(office: Office, change: str):
    office.name(("ada", ALL))
    assert office.revoke("ada") == 0
    (made,) = office.decided()
    other = {
        "action": made.proposal.model_copy(update={"action": "pardon"}),
        "subject": made.proposal.model_copy(update={"subject": "beta"}),
    }
    forged = made.model_copy(update={"proposal": other.get(change, made.proposal)})
    if change == "signature":
        forged = forged.model_copy(update={"signatures": {"ada": "00" * 64}})
    if change == "one key":
        pairs = {name: {**values, "bo": values["ada"]} for name, values in _maps(made).items()}
        forged = forged.model_copy(update=pairs)
    run = office.federation.run
    ledger = Ledger(run, role="server", name=run.name, clock=lambda: NOW)
    ledger.append("decided", forged.model_dump(mode="json"))
    finding = verify_ledger(run / "ledger.jsonl").finding
    words = {"twice": "repeats a decision", "one key": "one key for two operators"}
    assert finding is not None
    assert words.get(change, "is not signed by the operator ada") in finding.reason


def _maps(made: Decision) -> dict[str, dict[str, str]]:
    return {"keys": made.keys, "signatures": made.signatures}


def test_a_key_that_openssl_made_signs(office: Office):
    needs("openssl")
    file = office.keys / "ada"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(file)]
    subprocess.run(make, check=True, capture_output=True)
    show = ["openssl", "pkey", "-pubout", "-in", str(file)]
    public = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    lines = f'[operators.ada]\nroles = {ALL}\nkey = """\n{public}"""\n'
    (office.path / FILE).write_text(lines)
    assert office.revoke("ada") == 0


def test_what_is_signed_is_marked_as_a_decision():
    proposal = Proposal(federation="f", action="invite", subject="alpha", made=1)
    assert proposal.message == (
        b"fedse operator decision 1\n"
        b'{"action":"invite","federation":"f","made":1,"subject":"alpha"}'
    )
