"""The stage that asks the sites to train and takes in what they reply.

Which of the replies can be used is decided before their numbers are looked at. A reply with a vote
is on disk, whole, so that a thousand of them fit in memory.
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

from fedse.aggregate.factors import layout_of, request_bytes, travelling_spec, with_resting_factor
from fedse.committed import Exclusion
from fedse.config.schema import Config
from fedse.drivers.round import OpenRound
from fedse.errors import AdapterRejected
from fedse.method.site import Answer
from fedse.protocol import Delivery, Question
from fedse.role_figures import are_possible
from fedse.store.files import mapped
from fedse.store.run import Run
from fedse.types import AdapterSpec, ClientStats

Misfit = Callable[[str, bytes], str]
"""Why the bytes of this client's reply cannot be a vote of this round; empty = they may be one."""
Keep = Callable[[Delivery], Answer]


def collect_votes(r: OpenRound) -> OpenRound:
    """Every vote that can be used is on disk, and every other reply has its reason."""
    return collect(r, *vote_rules(r))


def vote_rules(r: OpenRound) -> tuple[Misfit, Keep]:
    """What cannot be a vote of a site, and how one is kept."""
    travelling = travelling_spec(r.run.spec, r.run.config)

    def misfit(client: str, adapter: bytes) -> str:
        return misfit_of(r, travelling, adapter)

    return misfit, partial(_hold, r, travelling, inbox(r.run))


def collect_keys(r: OpenRound) -> OpenRound:
    """Where votes are summed in secret, a site replies with keys; the sum checks whose they are."""
    return collect(r, lambda client, keys: "", keep_small)


def collect(r: OpenRound, misfit: Misfit, keep: Keep) -> OpenRound:
    """Every reply to the question to train is kept, or has the reason why it cannot be used."""
    answers = {**r.answers}
    faults: list[Exclusion] = []
    config, asked = r.run.config, frozenset(r.asked)
    question = training_question(r)
    for delivery in r.ask(question, request_bytes(r.current, config), of=r.asked):
        if delivery.client in config.members and delivery.client not in asked:
            continue
        exclusion = delivery.exclusion or exclusion_of(config, delivery, answers, misfit)
        announce(r, delivery._replace(exclusion=exclusion))
        if exclusion:
            faults.append(exclusion)
        else:
            answers[delivery.client] = keep(delivery)
    r.run.emit("aggregate.started", round=r.index, answers=len(answers))
    return replace(r, answers=dict(sorted(answers.items())), faults=(*r.faults, *faults))


def training_question(r: OpenRound) -> Question:
    """What all who are asked to train are asked; now and then the adapter plays before that."""
    settings = r.run.config.eval
    measured = bool(settings.episodes) and (r.index - 1) % settings.every == 0
    return r.question("train", r.current, evaluate=measured)


def exclusion_of(
    config: Config, delivery: Delivery, answered: Collection[str], misfit: Misfit
) -> Exclusion | None:
    """Why a delivery that arrived cannot be used; None = it can."""
    client, stats, adapter, _ = delivery
    if client not in config.members:
        return Exclusion(client=client, kind="failed", reason="is not a member of this experiment")
    if client in answered:
        return Exclusion(client=client, kind="failed", reason="answered twice in one round")
    broken = ""
    if _too_many(stats, config, sites=config.aggregate.regions.get(client, 1)):
        broken = "counts more episodes than it was asked to play"
    elif not are_possible(stats.roles, config.roles.names):
        broken = "reports on other roles than the agreed ones, or what cannot be"
    elif adapter is not None:
        broken = misfit(client, adapter)
    return Exclusion(client=client, kind="rejected", reason=broken) if broken else None


def _too_many(stats: ClientStats, config: Config, *, sites: int) -> bool:
    asked = config.eval.episodes, config.eval.home
    counted = (
        (stats.played, config.rollout.episodes),
        *zip((stats.eval_played, stats.home_played), asked, strict=True),
        *zip((stats.personal_played, stats.personal_home_played), asked, strict=True),
    )
    return any(played > most * sites for played, most in counted)


def misfit_of(r: OpenRound, travelling: AdapterSpec, adapter: bytes) -> str:
    """Why these bytes cannot be a vote on the adapter that the round begins with; empty = fit."""
    layout = layout_of(adapter, travelling)
    if len(adapter) != layout.nbytes:
        return f"adapter of {len(adapter)} bytes, expected {layout.nbytes}"
    try:
        whole = with_resting_factor(adapter, layout, r.current)
    except AdapterRejected as rejection:
        return str(rejection)
    digest = hashlib.sha256(whole).hexdigest()
    if digest != r.current.digest and r.run.has_sent(digest):
        return "sent back the global adapter of an earlier round"
    return ""


def _hold(r: OpenRound, travelling: AdapterSpec, folder: Path, delivery: Delivery) -> Answer:
    if delivery.adapter is None:
        return Answer(delivery.client, delivery.stats, None)
    kept, layout = folder / f"{r.index}-{delivery.client}", layout_of(delivery.adapter, travelling)
    kept.write_bytes(with_resting_factor(delivery.adapter, layout, r.current))
    read = partial(mapped, kept)
    return Answer(delivery.client, delivery.stats, read, blocks=layout.blocks)


def keep_small(delivery: Delivery) -> Answer:
    """The answer of a reply that is no adapter, in memory."""
    sent = delivery.adapter
    return Answer(delivery.client, delivery.stats, None if sent is None else lambda: sent)


def announce(r: OpenRound, delivery: Delivery) -> None:
    """The delivery has its event."""
    client, fault, sent = delivery.client, delivery.fault, len(delivery.adapter or b"")
    facts = delivery.stats.model_dump(exclude={"roles"})
    r.run.emit("answer.received", round=r.index, client=client, fault=fault, bytes=sent, **facts)


def inbox(run: Run) -> Path:
    """The folder for what arrives in a round."""
    folder = run.path / "inbox"
    folder.mkdir(exist_ok=True)
    return folder


def forget_inbox(run: Run) -> None:
    """Nothing of what arrived is kept any more."""
    for kept in (*inbox(run).iterdir(), *(run.path / "sums").glob("*")):
        kept.unlink()
