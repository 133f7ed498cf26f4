"""Settings of earlier versions: ignored where they changed nothing, else refused with a way out."""

import pytest

from fedse.config import section
from fedse.config.file import dump_config, parse_config
from fedse.config.keys import config_keys
from fedse.config.removed import REMOVED
from fedse.errors import ConfigError

EXPERIMENT = '[[clients]]\nname = "a"\nenv = "maze"\n'


def with_setting(name: str, value: object) -> str:
    section, _, key = name.partition(".")
    line = f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n"
    return EXPERIMENT + line if section == "clients" else f"[{section}]\n{line}{EXPERIMENT}"


@pytest.mark.parametrize("name", [name for name, one in REMOVED.items() if one.default is not None])
def test_at_its_default_it_changes_nothing(name: str):
    """So a run folder of an earlier version, which holds every setting, is still read."""
    found = parse_config(with_setting(name, REMOVED[name].default), "old.toml")
    assert dump_config(found) == dump_config(parse_config(EXPERIMENT, "new.toml"))


@pytest.mark.parametrize("name", REMOVED)
def test_another_value_is_refused_with_what_to_do_instead(name: str):
    with pytest.raises(ConfigError) as told:
        parse_config(with_setting(name, "something else"), "old.toml")
    assert REMOVED[name].instead in str(told.value)
    assert "old.toml:" in str(told.value)


def test_no_setting_is_both_removed_and_known():
    assert not REMOVED.keys() & config_keys().keys()


@pytest.mark.parametrize(
    "setting",
    ['aggregate]\ntype = "product"', 'select]\ntype = "frontier"', 'train]\nloss = "kto"'],
)
def test_a_variant_whose_package_is_missing_names_it(setting: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(section, "plugin_names", lambda group: ())
    with pytest.raises(ConfigError, match="is in the package fed-se-variants, which is not inst"):
        parse_config(f"[{setting}\n{EXPERIMENT}", "old.toml")
