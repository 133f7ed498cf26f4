"""On PYTHONPATH of a real federation: a process ends itself by SIGKILL where a plan says so.

Python imports this file at its start. The plan is a folder of empty files named WHO@EVENT@ROUND;
the process that emits the event takes the file away and is dead before its next instruction. WHO
is `server` or a client. At an event with a file that ends in @hold the process says so, by a file
that ends in @held, and goes on when that is taken away. With FEDSE_LIGHT_SITES set, a site's worker
opens a site without a model. Of every answer a line in left.jsonl tells what is about to leave: the
digest of its bytes, and how many charges of the round the site's privacy journal has by then.
With FEDSE_LYING_REGION a region signs a wrong sum whenever the site of that name has a vote in it.
Nothing of fedse knows about it.
"""

import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

PLAN = os.environ.get("FEDSE_KILL_PLAN", "")


def strike(who, event, facts):
    """The process is dead if the plan holds this moment."""
    order = Path(PLAN) / f"{who}@{event}@{facts.get('round')}"
    hold(order)
    try:
        order.unlink()
    except FileNotFoundError:
        return
    line = {"time": time.time(), "who": who, "event": event, "round": facts.get("round")}
    with open(Path(PLAN) / "killed.jsonl", "a") as log:
        log.write(json.dumps(line) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


def hold(order):
    """Nobody holds this moment any more."""
    held = order.with_name(order.name + "@held")
    try:
        order.with_name(order.name + "@hold").rename(held)
    except FileNotFoundError:
        return
    while held.exists():
        time.sleep(0.01)


def arm_run(module):
    emit = module.Run.emit

    def emit_and_strike(self, event, /, **facts):
        emit(self, event, **facts)
        strike("server", event, facts)
        if "stage" in facts:
            strike("server", f"{event}.{facts['stage']}", facts)

    module.Run.emit = emit_and_strike


def arm_answer(module):
    answer = module.answer

    def handle_or_die(*given, emit, **options):
        def emit_and_strike(event, /, **facts):
            emit(event, **facts)
            strike(facts.get("client"), event, facts)

        done = answer(*given, emit=emit_and_strike, **options)
        question, _, site = given[:3]
        note_leaving(site, question, done)
        strike(site.client, f"answered.{question.kind}", {"round": question.round})
        return done

    module.answer = handle_or_die


def note_leaving(site, question, done):
    """What leaves with an answer is on record before it does."""
    charges = site.buffer.outbox.privacy.charges()
    line = {
        "who": site.client,
        "round": question.round,
        "kind": question.kind,
        "fault": int(done.fault),
        "digest": hashlib.sha256(done.adapter).hexdigest() if done.adapter else None,
        "charges": sum(one.round == question.round for one in charges),
    }
    with open(Path(PLAN) / "left.jsonl", "a") as log:
        log.write(json.dumps(line) + "\n")


def arm_step(module):
    begin = module.PrivateStep.__init__

    def begin_armed(self, site, config, round):
        def sum_and_strike(*given):
            found = site.gradients(*given)
            strike(site.client, "gradient.computed", {"round": round})
            return found

        begin(self, replace(site, gradients=sum_and_strike), config, round)

    module.PrivateStep.__init__ = begin_armed


def lighten(module):
    from tests.toys.light_site import open_light_site

    module.open_site = open_light_site


def arm_lie(module):
    regional_sum = module.regional_sum

    def lie(current, votes, **rules):
        planes = regional_sum(current, votes, **rules)
        strays = os.environ["FEDSE_LYING_REGION"] in {one.client for one in votes}
        return [planes[0] + 1.0, *planes[1:]] if strays else planes

    module.regional_sum = lie


ARMED = {}
if PLAN:
    ARMED |= {"fedse.store.run": arm_run, "fedse.site.answer": arm_answer}
    ARMED |= {"fedse.site.private_step": arm_step}
if os.environ.get("FEDSE_LYING_REGION"):
    ARMED |= {"fedse.drivers.region_votes": arm_lie}
if os.environ.get("FEDSE_LIGHT_SITES"):
    ARMED |= {"fedse.site.open": lighten}


class Arming(importlib.abc.MetaPathFinder):
    """Finds as Python does, and changes the named modules once they are loaded."""

    def find_spec(self, name, path, target=None):
        if name not in ARMED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_arm(module):
            load(module)
            ARMED[name](module)

        spec.loader.exec_module = load_and_arm
        return spec


if ARMED:
    sys.meta_path.insert(0, Arming())
