"""`fedse config`: an experiment file complete, and its settings explained."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from fedse.cli.run import Set
from fedse.config.file import dump_config, load_config
from fedse.config.keys import config_keys
from fedse.config.keys import explain as explain_key

app = App(name="config", help_format="plaintext", help_epilogue="")

File = Annotated[Path, Parameter(help="The experiment file (TOML).")]


@app.command
def show(config: File, /, *, set_: Set = []) -> None:  # noqa: B006  only read
    """Print the experiment with every setting, as TOML that can be run.

    Example: fedse config show my.toml --set train.lr=1e-4
    """
    print(dump_config(load_config(config, set_)), end="")


@app.command
def explain(
    key: Annotated[str, Parameter(help="A setting, as in train.lr; default: all.")] = "", /
) -> None:
    """Explain a setting: its meaning, its values and its default.

    Example: fedse config explain rollout.temperature
    """
    if key:
        print(explain_key(key))
        return
    settings = [setting for setting in config_keys().values() if not setting.is_section]
    width = max(len(setting.name) for setting in settings)
    for setting in settings:
        print(f"{setting.name:<{width}}  {setting.about}")
    print("\ndetails of a setting or a section: fedse config explain train.lr")
