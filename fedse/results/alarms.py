"""When a run cannot improve: what is wrong, in one sentence, and what to do next.

An alarm depends only on a round's numbers and the settings, so every place that has them raises
the same ones: the running command, the result, the report and a site's own console.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fedse.adapters.base import FETCHED
from fedse.committed import RoundResult
from fedse.config.schema import Config
from fedse.results.role_alarms import role_alarms
from fedse.results.role_course import Validations
from fedse.types import ClientStats

SPOKEN: Mapping[str, tuple[str, ...]] = {
    "tiny": ("maze", "wordle"),
    "tiny-five": ("babyai", "maze", "textcraft", "webshop", "wordle"),
}
"""The environments whose vocabulary the shipped base models know; they know no other words."""
NO_VALIDATIONS: Validations = {}
ANOTHER_BASE = f"fedse model get {FETCHED[0]}, then fedse run CONFIG --set model.base={FETCHED[0]}"
MOST = 0.9
"""From this share of the replies on, they count as all: one may be right by chance."""
FEW = 0.1
"""Below this share of the groups or of the games, what is left is too little to learn from."""
HALF = 0.5
"""From this share of the games on, being cut off is what decides them."""


class Alarm(NamedTuple):
    """Something that keeps the agent from learning."""

    name: str
    """`context-full`, `replies-cut`, `no-action`, `nothing-solved`, `few-groups`, `all-alike`,
    `nobody-voted`, `never-clipped`, `role-captured` or `role-cliff`."""
    text: str
    next: str
    """The command that examines or changes it."""


class StandingAlarm(NamedTuple):
    """An alarm and the rounds in which it was raised; its text is that of the last one."""

    alarm: Alarm
    rounds: tuple[int, ...]


class _Scene(NamedTuple):
    """What the sentence of an alarm is built from."""

    who: str
    together: ClientStats
    config: Config
    look: str
    """The command that shows what the agent saw and said."""


class _Rule(NamedTuple):
    name: str
    holds: Callable[[ClientStats], bool]
    """Whether it holds for one client that played in this round."""
    text: Callable[[_Scene], str]
    next: Callable[[_Scene], str]


def round_alarms(result: RoundResult, config: Config) -> list[Alarm]:
    """The alarms about a committed round."""
    alarms = client_alarms(result.stats, config, round=result.index)
    return alarms if result.voters else [*alarms, _nobody_voted(result)]


def course_alarms(
    results: Sequence[RoundResult], config: Config, validations: Validations = NO_VALIDATIONS
) -> list[Alarm]:
    """The alarms that follow from several rounds, up to the last of these."""
    return [Alarm(*alarm) for alarm in role_alarms(results, config, validations)]


def client_alarms(
    stats: Mapping[str, ClientStats], config: Config, *, round: int, run: str = "last"
) -> list[Alarm]:
    """The alarms that follow from these clients' numbers; `run` is what their commands name."""
    playing = {client: one for client, one in stats.items() if one.played}
    look = f"fedse view {run} --round {round}"
    return [
        Alarm(rule.name, rule.text(scene), rule.next(scene))
        for rule in RULES
        if (scene := _scene(rule, playing, config, look)) is not None
    ]


def standing_alarms(
    results: Sequence[RoundResult], config: Config, validations: Validations = NO_VALIDATIONS
) -> list[StandingAlarm]:
    """Every alarm of these rounds, in the order in which they were first raised."""
    rounds: dict[str, list[int]] = {}
    newest: dict[str, Alarm] = {}
    for place, result in enumerate(results, 1):
        told = course_alarms(results[:place], config, validations)
        for alarm in (*round_alarms(result, config), *told):
            rounds.setdefault(alarm.name, []).append(result.index)
            newest[alarm.name] = alarm
    return [StandingAlarm(newest[name], tuple(found)) for name, found in rounds.items()]


def rounds_text(rounds: Sequence[int]) -> str:
    """`round 3`, `rounds 1 to 4`, `rounds 1, 3, 5`."""
    if len(rounds) == 1:
        return f"round {rounds[0]}"
    if list(rounds) == list(range(rounds[0], rounds[-1] + 1)):
        return f"rounds {rounds[0]} to {rounds[-1]}"
    return f"rounds {', '.join(map(str, rounds))}"


def _scene(
    rule: _Rule, playing: Mapping[str, ClientStats], config: Config, look: str
) -> _Scene | None:
    """The clients for which the rule holds, added up; None = for nobody."""
    found = {client: one for client, one in playing.items() if rule.holds(one)}
    if not found:
        return None
    fields = ("played", "truncated", "replies", "unread", "cut", "buffered", "groups", "mixed")
    sums = {name: sum(getattr(one, name) for one in found.values()) for name in fields}
    everybody = len(found) == len(playing) > 1
    who = "every client" if everybody else ", ".join(found)
    return _Scene(who, ClientStats(**sums), config, look)


def _nobody_voted(result: RoundResult) -> Alarm:
    if len(result.abstained) == len(result.stats) > 0:
        text = "nobody voted: no client has an episode to learn from, so the adapter is unchanged"
        return Alarm("nobody-voted", text, "fedse run CONFIG --set buffer.demonstrations=16")
    counts = ", ".join(_missing(result))
    text = f"nobody voted ({counts}), so the adapter is unchanged"
    return Alarm("nobody-voted", text, "fedse report last")


def clip_alarms(longest: float, config: Config, client: str) -> list[Alarm]:
    """Of a fit with noise, whose longest gradient of a unit is known; it never leaves the site."""
    clip = config.privacy.clip
    if not 0 < longest < clip:
        return []
    text = (
        f"{client}: no {config.privacy.unit} of this round has a gradient as long as privacy.clip "
        f"= {clip:g}, the longest is {longest:.2g}: the noise hides more than anyone could tell"
    )
    how = "choose a smaller privacy.clip on public lessons: docs/how-to/differential-privacy.md"
    return [Alarm("never-clipped", text, how)]


def _missing(result: RoundResult) -> Iterator[str]:
    kinds = {"excluded": result.excluded, "absent": result.absent, "no vote": result.abstained}
    for kind, clients in kinds.items():
        if clients:
            yield f"{len(clients)} {kind}"


def is_foreign(config: Config) -> bool:
    """Whether a shipped base model is used in an environment whose words it does not know."""
    known = SPOKEN.get(config.model.base)
    return known is not None and any(client.env not in known for client in config.clients)


def _no_action(scene: _Scene) -> str:
    counted = f"{scene.together.unread} of {scene.together.replies}"
    text = f"{scene.who}: the environment found no action in {counted} replies"
    if is_foreign(scene.config):
        base = scene.config.model.base
        text += f"; the base model {base} knows only the words of {', '.join(SPOKEN[base])}"
    return text


def _another_base(scene: _Scene) -> str:
    return ANOTHER_BASE if is_foreign(scene.config) else scene.look


def _nothing_solved(scene: _Scene) -> str:
    lessons = scene.together.buffered
    rest = f"training uses {lessons} earlier ones" if lessons else "there is nothing to learn from"
    return f"{scene.who}: none of {scene.together.played} games succeeded; {rest}"


RULES: Sequence[_Rule] = (
    _Rule(
        "context-full",
        lambda one: one.truncated >= HALF * one.played,
        lambda s: (
            f"{s.who}: {s.together.truncated} of {s.together.played} games were cut off before "
            f"their end, by rollout.context = {s.config.rollout.context} or the turn cap"
        ),
        lambda s: f"fedse run CONFIG --set rollout.context={2 * s.config.rollout.context}",
    ),
    _Rule(
        "replies-cut",
        lambda one: one.replies > 0 and one.cut >= MOST * one.replies,
        lambda s: (
            f"{s.who}: {s.together.cut} of {s.together.replies} replies are as long as "
            f"rollout.new_tokens = {s.config.rollout.new_tokens} allows, so they were cut off"
        ),
        lambda s: f"fedse run CONFIG --set rollout.new_tokens={2 * s.config.rollout.new_tokens}",
    ),
    _Rule(
        "no-action",
        lambda one: one.replies > 0 and one.unread >= MOST * one.replies,
        _no_action,
        _another_base,
    ),
    _Rule("nothing-solved", lambda one: one.succeeded == 0, _nothing_solved, _another_base),
    _Rule(
        "few-groups",
        lambda one: one.mixed < FEW * one.groups,
        lambda s: (
            f"{s.who}: in {s.together.mixed} of {s.together.groups} tasks played several times the "
            "rewards differed; nothing can be learned from the others"
        ),
        lambda s: s.look,
    ),
    _Rule(
        "all-alike",
        lambda one: one.groups > 0 and one.distinct < FEW,
        lambda s: (
            f"{s.who}: nearly all of {s.together.played} games repeat another one action for "
            "action, so there is little to compare"
        ),
        lambda s: "fedse run CONFIG with a lower train.lr",
    ),
)
