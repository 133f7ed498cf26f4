"""Whose keys a secure sum believes in, as its owner writes them down."""

import pytest

from tests.needs import needs

needs("cryptography", "Crypto")

from fedse.cli.sum_keys import parse_keys
from fedse.errors import ConfigError
from fedse.secure_sum.directory import parse_directory

KEYS = {name: f"{place:064x}" for place, name in enumerate(("north", "south", "west"))}


def test_every_member_is_named_once():
    given = [f"{name}={key}" for name, key in KEYS.items()]
    assert parse_keys(given, members=tuple(KEYS)) == KEYS
    for wrong in (given[:2], [*given, "east=00"], [*given, given[0]]):
        with pytest.raises(ConfigError, match="expected one key for each of north, south, west"):
            parse_keys(wrong, members=tuple(KEYS))


@pytest.mark.parametrize("wrong", ["", "00", "G" * 64, "0" * 66])
def test_a_key_is_32_bytes_in_hex(wrong: str):
    assert parse_directory(KEYS) == KEYS
    with pytest.raises(ConfigError, match="not 32 bytes in hex"):
        parse_directory({**KEYS, "north": wrong})


def test_no_two_members_have_one_key():
    with pytest.raises(ConfigError, match="the same key"):
        parse_directory({**KEYS, "north": KEYS["west"]})
