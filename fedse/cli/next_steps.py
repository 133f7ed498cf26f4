"""Commands to try after a demo."""

from pathlib import Path


def next_steps(path: Path, *, by_name: bool, env: str = "wordle --option words=small") -> str:
    """Commands to try after the demo; a run kept elsewhere is named by its path.

    `env`: an environment of the run as `fedse env play` takes it, with the same tasks.
    """
    steps = [
        ("a page about this run", f"fedse report {'last' if by_name else path} --open"),
        ("what the agent saw and did", f"fedse view {'last' if by_name else path}"),
        ("the new agent in fresh games", f"fedse eval {'last' if by_name else path}"),
        ("a game of this kind, by you", f"fedse env play {env}"),
        ("all runs so far", "fedse runs" if by_name else f"fedse runs {path.parent}"),
        ("your own settings", f"fedse run {path / 'config.toml'} --set run.rounds=8"),
    ]
    return "\n".join(["", "next", *(f"  {about:<28}  {command}" for about, command in steps)])
