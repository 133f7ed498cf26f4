"""What an environment is called where a person reads it."""

from collections import Counter
from collections.abc import Iterable


def world_names(envs: Iterable[str]) -> dict[str, str]:
    """Each environment's name on screens: as registered, or the class of `module:Class`.

    Two that would be called the same keep their whole names.
    """
    short = {env: env.rpartition(":")[2] or env for env in envs}
    often = Counter(short.values())
    return {env: name if often[name] == 1 else env for env, name in short.items()}
