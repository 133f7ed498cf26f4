"""Roles in the settings: what they name must be there, and somebody must learn what is merged."""

from itertools import permutations
from typing import Any

import pytest
from pydantic import ValidationError

from fedse.adapters.base import initial_adapter, spec_of
from fedse.blocks import block_adapter
from fedse.config.keys import config_keys
from fedse.config.schema import Config

NAMES = ("act", "check", "plan")


def config(*acting: tuple[str, ...], **roles: Any) -> Config:
    clients = [
        {"name": f"c{i}", "env": "coin", "roles": told} for i, told in enumerate(acting or [()])
    ]
    return Config.model_validate({"clients": clients, "roles": {"names": NAMES, **roles}})


APART = {"policy": "isolated"}


def test_the_order_of_roles_makes_no_block_another():
    told = [
        config(policy="isolated", names=names, together=[names[:2]])
        for names in permutations(NAMES)
    ]
    assert {one.roles.blocks for one in told if {*one.roles.together[0]} == {"act", "plan"}} == {
        ("act+plan", "check")
    }


def test_a_client_votes_on_the_blocks_of_its_roles():
    told = config(("act",), (), **APART, together=[("act", "check")], local=["plan"])
    assert told.roles.merged_blocks == ("act+check",)
    assert told.roles.blocks_voted_on(("act", "plan")) == ("act+check",)
    alone = config(("act",), (), **APART)
    assert [alone.roles.blocks_voted_on(c.roles) for c in alone.clients] == [("act",), NAMES]
    assert config(("act",)).roles.blocks_voted_on(("act",)) == ()


@pytest.mark.parametrize(
    ("acting", "roles", "reason"),
    [
        ([("act", "fly")], {}, "clients.roles of 'c0' names 'fly': it is not in roles.names"),
        ([("act", "act")], {}, "clients.roles of 'c0' has 'act' twice"),
        ([("act",)], {"names": ()}, "names 'act': it is not in roles.names"),
        ([("act",), ("plan",)], APART, "no client has the role 'check'"),
        ([("check",), ()], {**APART, "local": ["check"]}, "of 'c0' has local roles only"),
    ],
)
def test_roles_that_nobody_has_are_refused(acting: list[Any], roles: Any, reason: str):
    with pytest.raises(ValidationError, match=reason):
        config(*acting, **roles)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"buffer": {"pooled": True}}, "roles.local needs buffer.pooled = false"),
        ({"step": {"units": 9, "noise": 3.0}}, "roles.local needs step.units = 0"),
    ],
)
def test_what_stays_at_a_site_is_learned_there(changes: Any, reason: str):
    roles = {"names": NAMES, **APART, "local": ["check"]}
    plain = {"clients": [{"name": "a", "env": "coin"}], "roles": roles}
    with pytest.raises(ValidationError, match=reason):
        Config.model_validate({**plain, **changes})


def test_a_secret_sum_has_enough_voters_on_every_block():
    plain: dict[str, Any] = {"aggregate": {"secure": True, "clip": "none"}}

    def told(*acting: tuple[str, ...]) -> Config:
        clients = [{"name": f"c{i}", "env": "x", "roles": r} for i, r in enumerate(acting)]
        return Config.model_validate(
            {**plain, "clients": clients, "roles": {"names": NAMES, **APART}}
        )

    told((), (), ("act", "plan"), ("check",))
    with pytest.raises(ValidationError, match="3 clients or more with each role"):
        told((), (), ("act", "plan"))


def test_every_setting_of_roles_is_described():
    described = {key for key in config_keys() if key.startswith("roles.")}
    assert {"roles.names", "roles.policy", "roles.together", "roles.local"} <= described
    assert "clients.roles" in config_keys()


@pytest.mark.parametrize(
    ("roles", "reason"),
    [
        ({"names": ("act", "act")}, "roles.names has 'act' twice"),
        ({**APART, "together": [["act", "fly"]]}, "roles.together names 'fly'"),
        ({"together": [["act", "plan"]]}, 'roles.together needs roles.policy = "isolated"'),
        ({"local": ["act"]}, "what all roles share cannot stay at home"),
        ({**APART, "together": [["act", "plan"]], "local": ["act"]}, "must be local together"),
        ({**APART, "local": NAMES}, "roles.local holds every role"),
    ],
)
def test_what_roles_say_of_each_other_must_fit(roles: Any, reason: str):
    with pytest.raises(ValidationError, match=reason):
        config(**roles)


def test_all_blocks_begin_as_an_adapter_without_roles_does():
    apart, plain = config(**APART), config(names=())
    whole = initial_adapter(spec_of(apart), seed=3)
    alone = initial_adapter(spec_of(plain), seed=3)
    assert [block_adapter(whole, block).digest for block in NAMES] == [alone.digest] * len(NAMES)
