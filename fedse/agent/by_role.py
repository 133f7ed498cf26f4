"""One policy made of several: each role is acted by the policy of its part of the adapter."""

from collections.abc import Callable, Mapping, Sequence

from fedse.agent.policy import Dialogue, Policy, Reply, keeps_shapes
from fedse.errors import ConfigError
from fedse.seeds import seed_of


class ByRole:
    """Acts in each dialogue as the policy of its role does; `name` is that of the whole adapter."""

    def __init__(
        self, name: str, parts: Mapping[str, Policy], part_of: Callable[[str], str]
    ) -> None:
        """`part_of` gives the key in `parts` for a role."""
        self.name = name
        self.keeps_shapes = all(keeps_shapes(policy) for policy in parts.values())
        self._parts, self._part_of = parts, part_of

    def act(self, dialogues: Sequence[Dialogue], *, seed: int) -> list[Reply | None]:
        """One reply per dialogue; those of a part are drawn together, as if alone."""
        places: dict[str, list[int]] = {}
        for place, dialogue in enumerate(dialogues):
            places.setdefault(self._known(dialogue.role), []).append(place)
        replies: dict[int, Reply | None] = {}
        for part in sorted(places):
            own, drawn = [dialogues[place] for place in places[part]], seed_of(seed, part)
            acted = self._parts[part].act(own, seed=drawn)
            replies |= zip(places[part], acted, strict=True)
        return [replies[place] for place in range(len(dialogues))]

    def _known(self, role: str) -> str:
        part = self._part_of(role)
        if part not in self._parts:
            known = ", ".join(sorted(self._parts))
            raise ConfigError(
                f"the role {role!r} has no part in the adapter, whose parts are {known}"
                if role
                else f"it is not known which role has to act; the adapter has parts for {known}",
                hint="name the role in roles.names, as the environment or the program names it",
            )
        return part
