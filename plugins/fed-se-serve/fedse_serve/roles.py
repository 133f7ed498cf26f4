"""An agent of several roles in service: the model's name in a request is the role.

An adapter of several blocks has a folder for each, named after the role or roles that act in it.
The engine is given a block under its own digest; the record has the digest of the whole adapter.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from fedse.adapters.peft_folder import WEIGHTS
from fedse.config.roles import SHARED, unknown_role
from fedse_serve.asked import Refused
from fedse_serve.registry import digest_in


def role_asked(model: str, roles: Sequence[str]) -> str:
    """The role that a request is for; empty if the agent has none."""
    if problem := unknown_role(model, roles):
        raise Refused(404, "model_not_found", problem, param="model")
    return model if roles else ""


def block_folder(adapter: Path, role: str) -> Path | None:
    """The folder of the block in which the role acts; None = all roles share the adapter."""
    for folder in sorted(adapter.iterdir()):
        if role in folder.name.split(SHARED) and (folder / WEIGHTS).is_file():
            return folder
    return None


def block_folders(adapter: Path) -> list[Path]:
    """The folders of all blocks; none where the adapter has one part."""
    return [one for one in sorted(adapter.iterdir()) if (one / WEIGHTS).is_file()]


class Blocks:
    """The engine's names for the adapters of roles."""

    def __init__(self, folder_of: Callable[[str], Path | None]) -> None:
        self._folder_of = folder_of
        self._names: dict[tuple[str, str], str] = {}
        self._folders: dict[str, Path] = {}

    def name(self, adapter: str, role: str) -> str:
        """What the engine calls the block of this adapter in which the role acts."""
        if not role:
            return adapter
        if (adapter, role) not in self._names:
            whole = self._folder_of(adapter)
            own = block_folder(whole, role) if whole else None
            self._names[adapter, role] = self._known(own) if own else adapter
        return self._names[adapter, role]

    def names(self, adapter: str) -> list[str]:
        """Everything of this adapter that an engine has to load."""
        whole = self._folder_of(adapter)
        return [*map(self._known, block_folders(whole) if whole else ())] or [adapter]

    def folder(self, name: str) -> Path | None:
        """Where the engine finds what it is asked for under this name."""
        return self._folders.get(name) or self._folder_of(name)

    def _known(self, folder: Path) -> str:
        digest = digest_in(folder)
        self._folders[digest] = folder
        return digest
