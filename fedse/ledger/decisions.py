"""What named operators decided about a federation, and their signatures, as its ledger has it."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from fedse.ledger.chain import Entry, Finding
from fedse.ledger.keys import signed_by
from fedse.types import CLIENT_NAME, Record, canonical_json

PURPOSE = b"fedse operator decision 1\n"
Action = Literal["invite", "revoke", "pardon", "amend"]
OperatorName = Annotated[str, Field(pattern=CLIENT_NAME)]


class Proposal(Record):
    """What an operator signs."""

    federation: str
    """Fingerprint of the coordinator's key."""
    action: Action
    subject: str
    """The site that it is about, or the digest of an amendment."""
    made: int
    """When it was first asked for, in seconds since 1970: no signature fits a later proposal."""

    @property
    def message(self) -> bytes:
        """The bytes that are signed, marked so that the signature fits nothing else."""
        return PURPOSE + canonical_json(self.model_dump(mode="json"))


class Decision(Record):
    """A proposal and who approved of it."""

    proposal: Proposal
    keys: dict[OperatorName, str]
    """Public keys of those who approved, in hex."""
    signatures: dict[OperatorName, str]

    @property
    def fault(self) -> str:
        """Why it proves nothing; empty = everybody named in it has signed, each with an own key."""
        if not self.keys or self.keys.keys() != self.signatures.keys():
            return "names operators without a key or a signature"
        if len(set(self.keys.values())) < len(self.keys):
            return "has one key for two operators"
        for name, key in self.keys.items():
            if not signed_by(key, self.proposal.message, self.signatures[name]):
                return f"is not signed by the operator {name}"
        return ""


def decision_fault(entries: Sequence[Entry]) -> Finding | None:
    """The first line about a decision that nobody signed, or that was there before."""
    seen = set[bytes]()
    for entry in entries:
        if entry.kind == "decided":
            decision = Decision.model_validate(entry.facts)
            again = decision.proposal.message in seen
            if fault := decision.fault or ("repeats a decision" if again else ""):
                return Finding(entry.line, fault)
            seen.add(decision.proposal.message)
    return None
