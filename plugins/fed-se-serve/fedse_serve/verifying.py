"""Verifiers judge ended sessions; what they say is on record as feedback."""

import json
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from fedse.errors import ConfigError, EnvError, boundary
from fedse_serve.labels import ended_at
from fedse_serve.records import Records
from fedse_serve.rows import FeedbackRow, StoredSession
from fedse_serve.settings import ServiceSettings, Verifier
from fedse_serve.stored import sessions_without, turns_of

Judge = Callable[[dict[str, Any]], bool | None]
UNSURE = "cannot tell"
"""On record for a session that a verifier cannot judge, so that nobody waits for it."""


def verify_ended(records: Records, settings: ServiceSettings, *, now: float, folder: Path) -> int:
    """Every ended session has the verdict of every verifier; how many are new.

    Commands start in `folder`. A session without texts cannot be judged.
    """
    made = 0
    for name, verifier in settings.verifiers.items():
        judge = judge_of(name, verifier, folder)
        for session in list(sessions_without(records, name)):
            if ended_at(session, settings, now) is None:
                continue
            verdict = judge(as_dictionary(records, session)) if session.learn else None
            value = UNSURE if verdict is None else verdict
            row = FeedbackRow(
                name, value, now, session=session.session, key=f"{name} {session.session}"
            )
            made += records.add_feedback([row]) != [None]
    return made


def as_dictionary(records: Records, session: StoredSession) -> dict[str, Any]:
    """What a verifier is given: who served, and what was said; no name of a person."""
    turns = [
        {"observation": turn.observation, "reply": turn.reply, "finish": turn.finish}
        for turn in turns_of(records, session.session)
    ]
    own = {"session": session.session, "application": session.application}
    return {**own, "arm": session.arm, "adapter": session.adapter, "turns": turns}


def judge_of(name: str, verifier: Verifier, folder: Path) -> Judge:
    """What judges one session; an error of it means that it cannot tell."""
    if verifier.command:
        return lambda session: _ran(verifier, session, folder)
    module, _, attribute = verifier.function.partition(":")
    with boundary(ConfigError, f"service.verifiers.{name}: function = {verifier.function!r}"):
        function = getattr(import_module(module), attribute)

    def judge(session: dict[str, Any]) -> bool | None:
        try:
            with boundary(EnvError, f"verifier {name}"):
                verdict = function(session)
        except EnvError:
            return None
        return None if verdict is None else bool(verdict)

    return judge


def _ran(verifier: Verifier, session: dict[str, Any], folder: Path) -> bool | None:
    try:
        ended = subprocess.run(
            verifier.command,
            input=json.dumps(session).encode(),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=verifier.seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {0: True, 1: False}.get(ended.returncode)
