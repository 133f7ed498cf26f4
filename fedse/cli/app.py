"""The command line: its verbs, and the one form in which failures are printed.

A verb's module is imported only when that verb is called, so help stays quick. An installed package
adds a verb by an entry point of the group fedse.commands: a function or a cyclopts App.

A `module:Class`
is looked for in the current folder last, so no file there can shadow an installed module.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import entry_points

from cyclopts import App, CycloptsError, Parameter

from fedse._version import __version__
from fedse.cli.display import plain_wanted, set_quiet
from fedse.cli.moved import require_current
from fedse.errors import FedSEError, Interrupted
from fedse.plugins import COMMANDS, require_plugin

ABOUT = """Organisations that may not share data improve one LLM agent together.

Only a LoRA adapter travels; what the agents saw stays where it is. Start with: fedse demo
"""
EPILOGUE = (
    "Results go to stdout, progress to stderr. --debug (or FEDSE_DEBUG=1) shows tracebacks. "
    "Runs are kept in $FEDSE_RUNS, or ~/.local/share/fedse/runs."
)
USAGE_EXIT, BUG_EXIT, INTERRUPT_EXIT = 2, 1, Interrupted.exit_code

# What each verb is for, and an example. Kept here because importing every verb is slow.
VERBS = {
    "demo": ("A small federated run on this machine, from start to result.", "demo desk --seed 1"),
    "init": ("Make a folder with an environment template to fill in.", "init my-agent"),
    "run": ("Run the experiment a TOML file describes.", "run my.toml --set run.rounds=3"),
    "resume": ("Continue a run that was interrupted.", "resume last"),
    "eval": ("Measure a run's adapter in fresh games.", "eval last --round 0"),
    "compare": ("Compare runs: which is better, and how certain that is.", "compare a b"),
    "report": ("Write one or more runs as an HTML page.", "report last --open"),
    "runs": ("List the runs on this machine and how they ended.", "runs --json"),
    "view": ("Show what the agents saw and said in a run.", "view last --outcome failure"),
    "export": (
        "Write episodes, results or an adapter for other tools.",
        "export results last --out results.json",
    ),
    "reproduce": ("Reproduce a table of the docs, with its seeds.", "reproduce main --quick"),
    "sweep": ("Compare settings over several seeds.", "sweep demo --grid run.rounds=2,4"),
    "backup": (
        "Copy a site, a federation or a run that is in use, encrypted.",
        "backup north north.age --key age1...",
    ),
    "gc": ("Delete adapters and leftovers that nothing needs.", "gc last --rounds 5"),
    "ledger": ("Verify or show the signed record of every round.", "ledger verify last"),
    "doctor": ("Check whether this machine is ready, and what is missing.", "doctor my.toml"),
    "config": ("Show an experiment in full, explain a setting.", "config explain train.lr"),
    "model": ("Get a base model, or show its size and memory.", "model show tiny"),
    "engine": ("Start or check the server that generates replies.", "engine check my.toml"),
    "env": ("List environments, check one, play one yourself.", "env play wordle"),
    "federation": ("Coordinate a federation: create, invite, enrol, start.", "federation status"),
    "privacy": ("What leaves a site, and what protects it.", "privacy report privacy.html"),
    "serve": ("Put an agent in service: gateway, feedback, canary.", "serve site"),
    "site": ("Take part in a federation: join, preview, start, pause.", "site preview"),
}
GROUPS = (
    "config",
    "model",
    "engine",
    "env",
    "export",
    "ledger",
    "federation",
    "privacy",
    "serve",
    "site",
)


def build_app() -> App:
    app = App(
        name="fedse",
        help=ABOUT,
        help_epilogue=EPILOGUE,
        version=f"fedse {__version__}",
        help_formatter="plain" if plain_wanted(sys.stdout) else "default",
        help_format="plaintext",
        default_parameter=Parameter(negative=()),
        # An interrupted run is reported in the same form as every other failure.
        suppress_keyboard_interrupt=False,
    )
    added = {entry.name: entry for entry in entry_points(group=COMMANDS)}
    for order, (verb, (about, example)) in enumerate(VERBS.items()):
        target = f"fedse.cli.{verb}:{'app' if verb in GROUPS else f'{verb}_verb'}"
        more = {} if verb in GROUPS else {"help_epilogue": ""}
        text = f"{about}\n\nExample: fedse {example}"
        target = added[verb].value if verb in added else target
        app.command(target, name=verb, help=text, sort_key=order, **more)
    for verb in sorted(added.keys() - VERBS.keys()):
        text = f"Added by {added[verb].value.partition(':')[0].partition('.')[0]}."
        app.command(added[verb].value, name=verb, help=text, help_epilogue="")
    return app


def start(argv: Sequence[str], app: App | None = None) -> int:
    """The exit code of a command of `app`; every failure is printed on stderr in the same form."""
    tokens = [token for token in argv if token != "--debug"]
    debug = len(tokens) < len(argv) or os.environ.get("FEDSE_DEBUG", "") not in ("", "0")
    # The one command that downloads from a hub, unless the user forbids it.
    fetching = tokens[:2] == ["model", "get"]
    set_quiet(os.environ, offline=not fetching, bars=fetching and sys.stderr.isatty())
    _look_here_last()
    try:
        require_current(tokens)
        if tokens:
            require_plugin(f"fedse {tokens[0]}", COMMANDS, tokens[0])
        code = (app or build_app())(
            tokens, exit_on_error=False, print_error=False, result_action="return_value"
        )
        sys.stdout.flush()
        return int(code or 0)
    except CycloptsError as error:
        return _report(str(error).strip(), "fedse --help", USAGE_EXIT)
    except FedSEError as error:
        if debug:
            traceback.print_exc()
        return _report(str(error), error.hint, error.exit_code)
    except Interrupted as stop:
        return _report(str(stop), stop.hint, stop.exit_code)
    except KeyboardInterrupt:
        return _report("stopped", "", INTERRUPT_EXIT)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; nothing can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        traceback.print_exc()
        return _report("this is a bug in fedse", "report it with the lines above", BUG_EXIT)


def _look_here_last() -> None:
    """Modules in the current folder can be imported, here and in the processes started from here.

    Worker processes and the children of `env check` are given this process's module path.
    """
    with suppress(FileNotFoundError):  # the current folder may have been removed
        here = os.getcwd()
        if here not in sys.path and "" not in sys.path:
            sys.path.append(here)


def _report(message: str, hint: str, code: int) -> int:
    label = "" if code == INTERRUPT_EXIT else "error: "
    print(f"{label}{message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return code
