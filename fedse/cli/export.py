"""`fedse export`: a run's episodes, results and adapters in formats that other tools read."""

import json as json_format
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from fedse.adapters.peft_folder import ELSEWHERE, export_adapter
from fedse.cli.phrases import counted
from fedse.cli.resume import RunName
from fedse.cli.view import ClientName, EnvName, OutcomeName, Round, RunOrHome, SplitName, TaskId
from fedse.errors import ConfigError, StoreError, boundary
from fedse.exports.episodes import (
    Origin,
    Place,
    StoredEpisode,
    Wanted,
    find_place,
    list_episodes,
    load_texts,
    matching,
    note_export,
    rows_of,
    system_prompts,
)
from fedse.exports.model_card import model_card
from fedse.exports.parquet import write_parquet
from fedse.exports.results import last_measured, results_of
from fedse.plugins import EXPORTS, load_plugin, require_plugin
from fedse.results.best_rounds import best_adapter
from fedse.results.outcome import committed_round
from fedse.store.run_folder import find_run, open_run, read_card, runs_root

app = App(name="export", help_format="plaintext", help_epilogue="")

Form = Literal["inspect", "parquet"]
AdapterRound = Annotated[int | None, Parameter(help="Which adapter; default: the last.")]


@app.command
def trajectories(
    run: RunOrHome = "last",
    /,
    *,
    to: Annotated[Form, Parameter(help="parquet: one file. inspect: a folder of logs.")],
    out: Annotated[Path, Parameter(help="The file or folder to make.")],
    kept: Annotated[
        bool, Parameter(help="Only episodes that were learned from.", show_default=False)
    ] = False,
    round: Round = None,
    client: ClientName = None,
    env: EnvName = None,
    outcome: OutcomeName = None,
    split: SplitName = None,
    task: TaskId = None,
) -> None:
    """Write what the agents saw and said, for training or for a viewer.

    This is private data: keep the file where the run is allowed to be.

    Example: fedse export trajectories last --to parquet --out won.parquet --kept
    """
    place = find_place(run, runs_root(os.environ))
    wanted = Wanted(round, client, env, outcome, split, task, kept)
    chosen = matching(list_episodes(place), wanted)
    if not chosen:
        raise ConfigError("no episode matches, nothing was written", hint=f"fedse view {run}")
    rows = _rows(place, chosen)
    if to == "parquet":
        _require_new(out)
        # Recorded first: a copy that nobody knows about cannot be deleted.
        note_export(chosen, out, clock=time.time)
        written = write_parquet(rows, out)
        print(f"{counted(written, 'episode')} in {out}")
    else:
        write_logs = _writer(to)
        note_export(chosen, out, clock=time.time)
        logs = list(write_logs(rows, out, _origin(place)))
        print(f"{counted(len(logs), 'log')} in {out}; view them: inspect view --log-dir {out}")


@app.command
def results(
    run: RunName = "last",
    /,
    *,
    out: Annotated[Path, Parameter(help="The JSON file to make.")],
    round: AdapterRound = None,
) -> None:
    """Write the held-out success per environment in the format of lm-eval.

    Example: fedse export results last --out results.json
    """
    path = find_run(run, runs_root(os.environ))
    _require_new(out)
    with closing(open_run(path, clock=time.time)) as opened:
        chosen = last_measured(opened) if round is None else round
        document = results_of(opened, read_card(path), chosen)
    with boundary(StoreError, f"{out} cannot be written", hint=ELSEWHERE):
        out.write_text(json_format.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"success of round {chosen} in {out}")


@app.command
def adapter(
    run: RunName = "last",
    /,
    *,
    out: Annotated[Path, Parameter(help="The folder to make.")],
    round: AdapterRound = None,
    best: Annotated[
        bool,
        Parameter(help="Each part as after the round in which it did best in validation games."),
    ] = False,
) -> None:
    """Write an adapter of a run as a PEFT folder with a model card.

    Of an agent of several roles with a part of the adapter for each, every part is a folder of its
    own, and `--best` takes every part of its best round.

    The card (README.md) has the base model, the success in held-out tasks, the gate, the head of
    the ledger, and the commands to serve the adapter. It names no client.

    Example: fedse export adapter last --round 3 --out my-adapter
    """
    _require_new(out)
    path = find_run(run, runs_root(os.environ))
    with closing(open_run(path, clock=time.time)) as opened:
        chosen = committed_round(opened, round)
        exported = best_adapter(opened) if best else opened.adapter(chosen)
        card = model_card(opened, read_card(path), exported, chosen)
        folder = export_adapter(exported, out, card=card)
    print(f"adapter of round {chosen} in {folder}; how to serve it is in {folder / 'README.md'}")


def _writer(form: Form) -> Callable[..., Iterable[Path]]:
    """What writes that form, as an installed package adds it."""
    require_plugin(f"--to {form}", EXPORTS, form)
    writer: Callable[..., Iterable[Path]] = load_plugin(EXPORTS, form)
    return writer


def _rows(place: Place, chosen: list[StoredEpisode]) -> Iterator[dict[str, Any]]:
    """The episodes whose text is there; how many lack it is printed on stderr."""
    prompts, lacking = system_prompts(place), 0
    for episode, trajectory in load_texts(chosen):
        if trajectory is None:
            lacking += 1
            continue
        own = prompts.get(episode.source.client, {})
        yield from rows_of(episode, trajectory, run_id=place.run_id, prompts=own)
    if lacking == len(chosen):
        raise StoreError(
            "nothing was written: the text of these episodes was not kept",
            hint="set buffer.keep_played = true, or export those learned from with --kept",
        )
    if lacking:
        note = f"{counted(lacking, 'episode')} omitted because their text was not kept"
        print(f"{note} (buffer.keep_played = false)", file=sys.stderr)


def _origin(place: Place) -> Origin:
    if place.config is None:
        now = datetime.now().astimezone()
        return Origin(place.run_id, place.sources[0].experiment, "unknown", now)
    created = datetime.fromisoformat(read_card(place.path).created)
    base = Path(place.config.model.base).name
    return Origin(place.run_id, place.config.run.name, base, created)


def _require_new(out: Path) -> None:
    if out.exists():
        raise ConfigError(f"{out} already exists", hint="choose another --out")
