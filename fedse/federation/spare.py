"""Places that a coordinator reserves at `create`, for sites that are not known yet.

All members agree on the list of names, so a name cannot be added later; a place can be given away.
"""

from pathlib import Path

from fedse.config.agreement import ELSEWHERE
from fedse.config.combinable import against_free_places
from fedse.config.schema import ClientSection, Config
from fedse.errors import ConfigError
from fedse.federation.enrolment import read_list
from fedse.federation.folder import LIST


def with_spare_places(config: Config, count: int) -> Config:
    """The experiment with `count` more members: spare-1, spare-2 and so on."""
    if count < 0:
        raise ConfigError(f"--spare must be 0 or more, got {count}")
    if not count:
        return config
    if reason := against_free_places(config):
        raise ConfigError(
            f"--spare cannot be used with {reason}, and no site answers for a free place",
            hint="leave --spare out, or turn that setting off",
        )
    taken = {client.name for client in config.clients}
    names = [f"spare-{number}" for number in range(1, count + 1)]
    if twice := sorted(taken & {*names}):
        raise ConfigError(
            f"the experiment already has a client named {', '.join(twice)}",
            hint="give it another name, or leave --spare out",
        )
    spare = [ClientSection(name=name, env=ELSEWHERE) for name in names]
    return config.model_copy(update={"clients": (*config.clients, *spare)})


def free_places(config: Config, folder: Path) -> frozenset[str]:
    """The spare places of the federation in `folder` that no site has taken yet."""
    spare = {client.name for client in config.clients if client.env == ELSEWHERE}
    if not spare or not (folder / LIST).is_file():
        return frozenset()
    members = read_list(folder / LIST).members
    return frozenset(name for name in spare if members[name].state in ("not invited", "invited"))
