"""What belongs to the protocol is pinned: two releases that agree on its number work together.

A change of what travels, of the bundle, of an invitation's fields, of a fault's number or of an
agreed setting's default needs another PROTOCOL. A new setting whose default means "as before" does
not: add it here with `python -m tests.invariants.test_protocol`.
"""

import json
from pathlib import Path
from typing import Any

from tests.needs import needs

needs("flwr")

from fedse._version import PROTOCOL
from fedse.config.hardware import OWN_SECTIONS
from fedse.config.methods import with_settings
from fedse.config.schema import Config
from fedse.faults import Fault
from fedse.federation.invite import VERSION, Invite
from fedse.flower.messages.bundle import own_digest
from fedse.flower.messages.wire import FLOATS, INTEGERS, OPTIONAL
from fedse.protocol import KINDS, Question

PINNED = Path(__file__).with_name("protocol.json")
ONE = Config.model_validate({"clients": [{"name": "a", "env": "maze"}]})


def defaults() -> dict[str, Any]:
    """Every setting that members agree on, with its default."""
    sections = ONE.model_dump(mode="json", exclude={"clients", *OWN_SECTIONS})
    return {
        f"{name}.{key}": value for name, keys in sections.items() for key, value in keys.items()
    }


def present() -> dict[str, Any]:
    """All that two releases with one protocol have in common."""
    return {
        "protocol": PROTOCOL,
        "bundle": own_digest(),
        "question": {name: str(f.annotation) for name, f in Question.model_fields.items()},
        "kinds": [*KINDS],
        "reply": {"integers": INTEGERS, "floats": FLOATS, "optional": OPTIONAL},
        "faults": {fault.name: fault.value for fault in Fault},
        "invitation": {"version": VERSION, "fields": [*Invite.model_fields]},
        "defaults": defaults(),
        "agreed": ONE.agreed_digest(),
    }


def text_of(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1) + "\n"


def test_the_protocol_is_as_pinned():
    assert text_of(present()) == PINNED.read_text(), "see the top of this file"


def test_a_setting_with_its_default_is_not_in_what_is_agreed():
    """So a release that has more settings agrees with one that does not know them."""
    own = {"run.workers": 3, "model.base": "tiny-five", "buffer.keep_played": False}
    for settings in ({}, own, {"trainer.threads": 2}):
        assert with_settings(ONE, settings).agreed_digest() == ONE.agreed_digest()
    for settings in ({"run.seed": 1}, {"train.lr": 1.0}, {"model.rank": 4}):
        assert with_settings(ONE, settings).agreed_digest() != ONE.agreed_digest()


if __name__ == "__main__":
    PINNED.write_text(text_of(present()))
