"""What three new users type in their first hour, and what each of them must see.

A command is split like a shell's; `{NAME}` stands for what an earlier step printed.
"""

from collections.abc import Mapping
from typing import NamedTuple

DEVELOPER, RESEARCHER, ENGINEER = "agent developer", "researcher", "platform engineer"
CLINICS = """[run]
name = "clinics"
rounds = 3
[eval]
episodes = 20
[[clients]]
name = "north"
env = "maze"
[[clients]]
name = "south"
env = "maze"
"""
SCRIPT = """import fedse

result = fedse.run("demo", settings={settings})
low, high = result.overall.interval
print(f"all {{result.overall.after.value:.2f}}, change {{low:+.2f}} to {{high:+.2f}}")
print("folder", result.path)
"""
# The shortest demo that plays, learns, merges and measures.
LEAST = {
    "run.rounds": 1,
    "run.workers": 1,
    "rollout.episodes": 2,
    "buffer.demonstrations": 2,
    "eval.episodes": 2,
}
LEAST_TABLE = {
    "run.rounds": 1,
    "rollout.episodes": 1,
    "buffer.demonstrations": 1,
    "train.steps": 1,
    "personal.steps": 1,
    "eval.episodes": 1,
}
RATES = r"\d\.\d\d -> \d\.\d\d"
RUN_PATH = r"^run +(\S+)$"


class Step(NamedTuple):
    """A command of one user. Patterns are looked for in all that is printed, line by line."""

    who: str
    command: str
    sees: tuple[str, ...]
    folder: str = "."
    """Below the user's home."""
    exit_code: int = 0
    takes: Mapping[str, str] = {}
    """Name -> the pattern whose only group later commands call by that name."""


def files(*, short: bool) -> dict[str, str]:
    """What the users write themselves, by its place below the home."""
    settings = {**(LEAST if short else {}), "aggregate.clip": "none"}
    return {"clinics.toml": CLINICS, "experiment.py": SCRIPT.format(settings=settings)}


def steps(*, short: bool) -> list[Step]:
    """All steps in their order; the short form takes the fewest rounds and games there can be."""
    return [*_developer(short=short), *_researcher(short=short), *_engineer()]


def _given(settings: Mapping[str, object]) -> str:
    return "".join(f" --set {name}={value}" for name, value in settings.items())


def _developer(*, short: bool) -> list[Step]:
    demo = f"fedse run demo --plain{_given(LEAST)}" if short else "fedse demo --plain"
    own = "my-agent"
    learn = Step(DEVELOPER, "fedse run fedse.toml --plain", (rf"^  all +{RATES}",), own)
    get = r"fedse model get smollm2-135m"
    return [
        Step(DEVELOPER, "fedse doctor", (r"^ok +torch \d", r"^ok +base models tiny \w{8}")),
        Step(
            DEVELOPER,
            demo,
            (
                r"^success on held-out tasks, first -> last \(95 % interval\)$",
                rf"^  maze +{RATES} .*\d+ games$",
                rf"^  wordle +{RATES} .*\d+ games$",
                r"^exchanged .* adapters only$",
            ),
            takes={"DEMO": RUN_PATH},
        ),
        Step(DEVELOPER, "fedse runs", (rf"-demo +finished, \d+ rounds? +{RATES}$",)),
        Step(DEVELOPER, "fedse view last --limit 1", (r"^the newest 1 of \d+ episodes;",)),
        Step(DEVELOPER, f"fedse init {own} --base tiny", (r"^  fedse env check env:MyEnv ",)),
        Step(DEVELOPER, "fedse env check env:MyEnv", (r"^env:MyEnv keeps its contract$",), own),
        Step(
            DEVELOPER,
            "fedse run fedse.toml --dry-run",
            (r"this experiment can run here; nothing was started$", r"^per round .* MB up$"),
            own,
        ),
        *([] if short else [learn]),
        Step(DEVELOPER, "fedse init real-agent", (rf"^  {get} ",)),
        Step(
            DEVELOPER,
            "fedse run fedse.toml --dry-run",
            (r"^error: model.base = 'smollm2-135m'", rf"^hint: {get}"),
            "real-agent",
            exit_code=3,
        ),
    ]


def _researcher(*, short: bool) -> list[Step]:
    table = f"fedse reproduce main --quick{_given(LEAST_TABLE) + ' --jobs 1' if short else ''}"
    arms = ("fed-se", "fed-se, personal", "local-evolve", "central-evolve")
    same = () if short else (r"^(\d+) of \1 results have the expected adapters, bit for bit$",)
    return [
        Step(
            RESEARCHER,
            table,
            (
                r"success on held-out games over 1 seed$",
                *(rf"^  {arm} +\S* *(-> )?\d\.\d{{3}} " for arm in arms),
                r"^fed-se against local-evolve: ",
                *same,
            ),
        ),
        Step(
            RESEARCHER,
            "python experiment.py",
            (r"^all \d\.\d\d, change [+-]\d\.\d\d to [+-]\d\.\d\d$",),
            takes={"SCRIPTED": r"^folder (\S+)$"},
        ),
        Step(
            RESEARCHER,
            "fedse compare {DEMO} {SCRIPTED}",
            (r"^B minus A, the same \d+ games$", r"95 % interval$"),
        ),
        Step(RESEARCHER, "fedse report {DEMO}", (r"report\.html$",)),
    ]


def _engineer() -> list[Step]:
    join = "fedse site join federation/invites/north.invite.json --home north --env maze"
    join += " --option prompt=short --fingerprint"
    wrong = "-".join(["0000"] * 8)
    return [
        Step(
            ENGINEER,
            "fedse federation create clinics.toml --host localhost",
            (r"^federation +clinics, 2 sites, ", r"over the phone"),
            takes={"FINGERPRINT": r"^fingerprint +(\S+)"},
        ),
        Step(ENGINEER, "fedse federation invite north", (r"^send this file to north over ",)),
        Step(
            ENGINEER,
            f"{join} {wrong}",
            (r"^error: .* is signed by the key \S+, expected 0000-", r"^hint: "),
            exit_code=2,
        ),
        Step(
            ENGINEER,
            f"{join} {{FINGERPRINT}}",
            (
                r"^joined +clinics as north; nothing was sent$",
                r"^send +north/enrolment\.json ",
            ),
        ),
        Step(
            ENGINEER,
            "fedse site preview --home north",
            (r"to localhost:8443 and nowhere else$", r"^stays here, no reply has a field"),
        ),
        Step(ENGINEER, "fedse federation enrol north/enrolment.json", (r"^north is enrolled",)),
        Step(
            ENGINEER,
            "fedse federation status",
            (r"^clinics at localhost:8443, key \S+", r"^  north +enrolled", r"^  south +"),
        ),
        Step(ENGINEER, "fedse ledger verify {DEMO}", (r"^  end +nothing in state.db is missing",)),
    ]
