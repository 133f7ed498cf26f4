"""Late votes, and the pace of rounds: what goes together with them, and what is refused why."""

import pytest
from pydantic import ValidationError

from fedse.config.schema import Config

CLIENTS = [{"name": name, "env": "maze"} for name in "abc"]
GATE = {"gate": {"episodes": 4, "liars": 1}, "splits": {"validation": 0.3}}


def parse(aggregate: dict[str, object], **sections: object) -> Config:
    limits = {"aggregate": {"late": 2, **aggregate}}
    return Config.model_validate({"clients": CLIENTS, **sections, **limits})


REFUSED = {
    'aggregate.late needs aggregate.type = "mean"': ({"type": "weighted"}, {}),
    "aggregate.late needs aggregate.secure = false": ({"secure": True, "clip": "none"}, {}),
    "aggregate.late needs gate.liars = 0": ({}, GATE),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_meaning_with_late_votes_is_refused(reason: str):
    aggregate, sections = REFUSED[reason]
    with pytest.raises(ValidationError, match=reason):
        parse(aggregate, **sections)
    assert parse({**aggregate, "late": 0}, **sections).aggregate.late == 0


def test_private_training_and_a_gate_that_accuses_nobody_go_together_with_them():
    judged = {**GATE, "gate": {"episodes": 4, "liars": 0}}
    assert parse({}, privacy={"epsilon": 4.0}, **judged).privacy.on


@pytest.mark.parametrize(("pace", "taken"), [(0.0, True), (0.5, False), (1.0, True), (2.5, True)])
def test_a_pace_leaves_time_for_the_median_site(pace: float, taken: bool):
    if taken:
        assert parse({"pace": pace}).aggregate.pace == pace
        return
    with pytest.raises(ValidationError, match=r"0 .* or at least 1, got 0\.5"):
        parse({"pace": pace})
