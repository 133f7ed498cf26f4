"""The roles of an environment are those that the experiment names, before any work."""

from fedse.config.schema import ClientSection, Config
from fedse.envs.base import Env, ProgramEnv, role_prompts_of
from fedse.errors import ConfigError
from fedse.suggest import did_you_mean


def require_roles(env: Env, config: Config, client: ClientSection) -> None:
    """Whoever acts at this client has a part in the adapter; a program says later who acts."""
    if isinstance(env, ProgramEnv):
        return
    roles, found = config.roles, sorted(role_prompts_of(env))
    named = client.roles or roles.names
    if roles.blocks and not found:
        raise ConfigError(
            f"environment {env.name!r} of {client.name} does not say which role acts, and "
            f"roles.policy = {roles.policy!r} has a part of the adapter for each",
            hint="give it role_prompts and acting(), see fedse.envs.base.RolesEnv",
        )
    unknown = [role for role in found if role not in named]
    if unknown:
        where = f"clients.roles of {client.name}" if client.roles else "roles.names"
        raise ConfigError(
            f"environment {env.name!r} of {client.name} has the role {unknown[0]!r}, which "
            f"{where} does not have{did_you_mean(unknown[0], named)}",
            hint=f"set {where.partition(' ')[0]} to {found}",
        )
