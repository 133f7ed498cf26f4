"""The sentences of the generated reference pages that the code cannot give."""

from fedse.types import ClientStats

# Page -> its title and its first paragraph.
INTRO = {
    "reference/commands.md": (
        "Commands",
        "Every command takes `--help`. `--debug` (or `FEDSE_DEBUG=1`) shows the traceback of an "
        "error. Results go to stdout, progress and errors to stderr. [Exit "
        "codes](exit-codes.md) has the meaning of each exit code. Runs are kept in "
        "`$FEDSE_RUNS`, or in `~/.local/share/fedse/runs`; name a run by its folder's name, by a "
        "path, or by `last`, the run that was started last.",
    ),
    "reference/config.md": (
        "Settings",
        "One TOML file describes one experiment. Every key is listed here; an unknown key is "
        "refused. `fedse config explain train.lr` prints one entry, `fedse config show FILE` "
        "prints a file with all its defaults, and `--set train.lr=1e-4` changes one key for one "
        "run. `(paper: 20)` is the published value.",
    ),
    "reference/service.md": (
        "Settings of a service",
        "The section `[service]` of a site's `site.toml`, or of `service/site.toml` in the folder "
        "of an adapter that is served, says what counts as success and how an agent is [in "
        "service](../how-to/put-your-agent-in-service.md). Every key is listed here; an unknown "
        "key is refused. The package is `fed-se-serve`.",
    ),
    "reference/events.md": (
        "Events",
        "A run writes one JSON object per event into `events.jsonl`, and `--json` prints the "
        "same lines. Each has `event` and `time` (seconds since 1970) besides the fields below. "
        "With the local driver the file holds the events of the coordinator and of all clients; "
        "in a federation a site writes its own into `worker.log`. No field holds text that an "
        "agent saw or wrote. Where these files are: [operate a "
        "federation](../how-to/operate.md#logs).",
    ),
    "reference/security-events.md": (
        "Security events",
        "The coordinator's folder and every site's home have a file `security.jsonl` with one "
        "JSON object per line, which a SIEM can collect: [operate a "
        "federation](../how-to/operate.md#security-events). Only its owner can read it. No field "
        "has text that an agent saw or wrote, and none has a reason that a person typed. Fields "
        "that do not apply are left out. Later versions may add events and fields.",
    ),
    "reference/exit-codes.md": (
        "Exit codes",
        "Every error is printed as `error: ...`. If there is something to do next, a line "
        "`hint: ...` follows. `fedse.FedSEError` and its subclasses carry the same "
        "number as `exit_code` and the same hint as `hint`. What to do about each: "
        "[troubleshooting](../how-to/troubleshooting.md).",
    ),
    "reference/api.md": (
        "Python API",
        "The public names of the package, `fedse.__all__`. They are imported from their modules "
        "when they are first used, so `import fedse` loads no model library. What is promised "
        "about them: [versions and releases](../explanation/releases.md).",
    ),
    "reference/compatibility.md": (
        "Compatibility",
        "What the package requires, and what was tested. CI installs the pinned versions of "
        "`.ci/constraints.txt` on Linux (x86-64) with two CPU cores; other versions inside the "
        "range of `pyproject.toml` can be installed but are not tested.",
    ),
    "adr/index.md": (
        "Decisions",
        "One page per decision: context, decision, consequences, and what would change our mind. "
        "They are grouped by subject; the numbers show the order in which they were made.",
    ),
}

# Subject of a decision -> what belongs there; the order is that of the page.
SUBJECTS = {
    "method": "What is played, learned and merged.",
    "wire": "What travels between the coordinator and the sites, and how.",
    "safety": "What a hostile or broken site, server or outsider cannot do.",
    "privacy": "What stays at a site, and what a reply reveals.",
    "operations": "What keeps a federation running, and what is kept on disk.",
    "tooling": "How the code is organised, and which packages it uses.",
}

# Fields that are spread with `**` in a call that emits an event.
SPREAD = {
    "delivery.stats.model_dump(exclude={'roles'})": [
        name for name in ClientStats.model_fields if name != "roles"
    ]
}

# Those of them whose name says all, so that the code has no docstring for them.
COUNTS = {
    "played": "Episodes played in exploration.",
    "succeeded": "Successful episodes among them.",
    "broken": "Episodes in which the environment raised or did not answer.",
    "steps": "Optimiser steps.",
    "eval_played": "Held-out episodes played with the adapter the client was sent.",
    "eval_succeeded": "Successful episodes among them.",
    "home_played": "The same in the client's own tasks that it does not learn from.",
    "home_succeeded": "Successful episodes among them.",
    "personal_played": "Held-out episodes played with the client's personal adapter.",
    "personal_succeeded": "Successful episodes among them.",
    "personal_home_played": "The same in the client's own tasks that it does not learn from.",
    "personal_home_succeeded": "Successful episodes among them.",
    "validation_played": "Episodes that decide whether a merged adapter is accepted.",
    "validation_succeeded": "Successful episodes among them.",
    "rollout_seconds": "Seconds of exploration.",
    "train_seconds": "Seconds of training.",
    "eval_seconds": "Seconds of held-out episodes.",
}

# In the order of a run.
EVENTS = {
    "run.started": "the rounds begin, or continue after `committed` of them",
    "round.waiting": "a round waits for its time, for news or for sites; until `at`, in seconds "
    "since 1970",
    "round.started": "the adapter is about to be sent to the clients",
    "answer.received": "a client's reply was read; `fault` is empty if it can be used",
    "answer.abstained": "a site answered without a vote, by its own choice",
    "answer.excluded": "a reply is not counted; the reason is given",
    "answer.late": "a reply arrived after its round; `again` if the same reply had been counted",
    "answer.joined": "a vote that was `made` for an earlier round counts with `weight`",
    "eval.recorded": "a client's held-out games with the adapter after `round` are in the database",
    "personal.started": "a client is about to make its personal adapter from `lessons` episodes",
    "gate.played": "the sites have played their validation games with `adapter`",
    "aggregate.started": "the replies are about to be merged",
    "commit.started": "the merged adapter is about to be committed",
    "sum.stage": "the members have answered a stage of a secure sum",
    "sum.refused": "a secure sum could not be made or used, so the adapter stays the same",
    "regions.summed": "the regions have answered the question for their sums",
    "region.told": "this region has told the coordinator above of its sites' votes",
    "region.summed": "this region has signed the sum of its sites' votes",
    "region.refused": "a question of the coordinator above was refused, with the number it got",
    "round.committed": "the round is in the database",
    "alarm.raised": "the round's numbers show what keeps the agent from learning",
    "loop.failed": "an error ended the round loop of a federation, which is then submitted again",
    "run.resumed": "the round loop ended early and was submitted again after `round`",
    "run.interrupted": "Ctrl-C; `round` rounds are committed",
    "run.stopped": "somebody asked for a stop, and no round is open; `round` rounds are committed",
    "run.finished": "all rounds are committed and the last adapter is measured",
    "run.failed": "the run ended with an error; see [exit codes](exit-codes.md)",
    "engine.ended": "the server that generates replies ended; it is restarted",
    "eval.started": "held-out games with the adapter that was sent begin",
    "eval.progress": "`played` of `episodes` games that are not learned from have ended; the "
    "others are in this `turn`",
    "rollout.started": "exploration begins",
    "rollout.progress": "more exploration games have ended; the others are in this `turn`",
    "train.started": "fine-tuning on `lessons` episodes begins",
    "upload.started": "the reply is about to be sent",
    "site.opening": "a client's model and environment are about to be loaded",
    "agreement.proposed": "an amendment came that waits for the consent of the site's owner",
    "site.paused": "the site's owner paused it, so it answers without a vote",
    "site.alarm": "gradients show what costs the agent; nothing of this leaves the site",
    "site.spent": "the site's privacy budget allows no further adapter, so it has no vote",
    "site.vetoed": "the site does not train from this adapter; see `veto_drop`",
    "site.withheld": "the site's audit did not let its adapter leave; see `[audit]` in its policy",
}

# Exit codes that are not those of an exception.
OTHER_EXITS = {
    0: "done",
    1: "an error that is a bug in fedse; the traceback is printed",
    2: "or the command line is wrong",
    40: "an audit did not pass; see [audit](../how-to/audit.md)",
    130: "stopped with Ctrl-C; committed rounds are kept",
}

PARTS = ("Functions", "Types", "Errors", "Other names")

AREAS = {
    "Python and systems": """\
| what | tested | where |
| --- | --- | --- |
| Python 3.11 | yes | CI, all tests |
| Python 3.12 | fast tests, all but one | 3.12.1 by hand, `just on 3.12`; below |
| Python 3.13 | fast tests, all but one | 3.13.0 by hand, `just on 3.13`; below |
| Python 3.14 | not tested | |
| Linux, x86-64 | yes | CI |
| Linux, other processors | not tested | |
| macOS, Windows | not tested | file locks and the federation use Linux calls |
| GPU | not tested | `trainer.device = "cuda"` exists but is not tested |

On 3.12 and 3.13, 2231 of the 2232 fast tests that ran passed. The one that failed regenerates the
results page: `sum` of floats is more exact there, and one mean of 0.285 is shown as 0.29 instead of
0.28. The slow and the federated tests were run on 3.11 only.""",
    "Core": "Installed with the package.",
    "Models and training": "Extra `hf`. A vLLM server over HTTP needs the extra `engine`.",
    "Federation": (
        "Extras `flower` and `simulation`. Flower is pinned exactly: a site replaces some names "
        "inside it, see the [threat model](../explanation/threat-model.md)."
    ),
    "Environments and bridges": "Extras of the same names.",
    "Looking and exporting": "Extras of the same names; `report` needs Jinja.",
}

ALL = "CI, all tests that need it"
SKIPPED = "a test that runs where the package is installed; CI does not install it"
HAND = "by hand, see the [lab notes](../lab-notes/operations.md#bridges-against-the-real-thing)"
COMPATIBILITY: dict[str, dict[str, str]] = {
    "Core": dict.fromkeys(("cyclopts", "numpy", "pydantic", "rich", "tomlkit"), ALL),
    "Models and training": {
        **dict.fromkeys(("torch", "transformers", "peft", "safetensors"), ALL),
        "trl": SKIPPED,
        **dict.fromkeys(("accelerate", "httpx"), ALL),
        "bitsandbytes": f"version 0.50.2 by hand; {SKIPPED}",
        "vllm": "version 0.32.0 (CPU) by `research/real_engine.sh`; CI skips these tests by name",
    },
    "Federation": {
        "flwr": "CI: simulation, deployment with TLS and node keys",
        "ray": "CI: simulation",
        "cryptography": ALL,
    },
    "Environments and bridges": {
        "minigrid": ALL,
        "rapidfuzz": ALL,
        "gymnasium": ALL,
        "mcp": "CI: a server process on the official SDK",
        "websockets": "CI: the client side",
        "openenv": f"version 0.10.0 {HAND}",
        "starlette": "CI: the recording endpoint",
        "uvicorn": "CI: the recording endpoint",
        "llguidance": "CI: tool calls and JSON that the endpoint must return",
        "openai": "CI: the client of the recording endpoint",
        "langgraph": "CI: an agent that is trained through the endpoint",
    },
    "Looking and exporting": {
        "jinja2": ALL,
        "inspect-ai": ALL,
        "pyarrow": ALL,
        "prometheus-client": ALL,
        "tensorboard": ALL,
        "trackio": SKIPPED,
        "mlflow-skinny": SKIPPED,
        "wandb": SKIPPED,
    },
}
