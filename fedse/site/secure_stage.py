"""A site's part in a secure sum: its adapter stays here, and only masked numbers leave.

Each answer follows from a state that is on disk before it leaves, so a stage that is asked again,
also after a crash, gets the same bytes, and one that is asked in another way is refused.
"""

import secrets
from pathlib import Path

import numpy as np

from fedse.aggregate.factors import learned_part, travelling_spec
from fedse.config.schema import Config
from fedse.errors import ConfigError, WireError
from fedse.ledger.keys import Signer, new_signer
from fedse.method.site import Site
from fedse.protocol import Request, SiteReply, StageRequest
from fedse.secure_sum import member
from fedse.secure_sum.directory import read_directory
from fedse.secure_sum.fixed_point import Whole, encode
from fedse.secure_sum.member import MemberState, SumRefused
from fedse.secure_sum.messages import (
    Confirmations,
    ShareMail,
    Survivors,
    from_bytes,
    masked_from_bytes,
    masked_to_bytes,
    to_bytes,
)
from fedse.secure_sum.roster import Roster, sum_terms
from fedse.types import Adapter, ClientStats


def announced(
    request: Request, current: Adapter, done: SiteReply, site: Site, config: Config
) -> SiteReply:
    """What leaves of a finished round: its numbers, and signed keys in the place of the adapter."""
    if done.adapter is None:
        return done
    part = travelling_spec(site.spec, config)
    terms = sum_terms(config, round=request.round, adapter=request.adapter, size=part.size)
    sums, key = site.buffer.sums, (request.experiment, request.round)
    if not sums.is_known(*key):
        start = learned_part(current, part).vector
        vote = np.frombuffer(done.adapter, dtype="<f4", offset=len(part.header))
        encoded = masked_to_bytes(encode(start, vote, terms.form))
        state = member.announce(terms, site.client, _signer(site), draw=secrets.token_bytes)
        sums.begin(*key, state.model_dump_json(), encoded)
    state = _state(site, *key)
    if state.terms != terms:
        raise SumRefused(
            f"round {request.round} was begun with another adapter or other settings",
            hint="a round is summed once; ask for the next one",
        )
    return SiteReply(done.stats, to_bytes(state.announcement))


def serve_stage(request: StageRequest, data: bytes, site: Site, config: Config) -> SiteReply:
    """The site's answer to one stage of the sum of a round that it has announced keys for."""
    agreed = (config.run.name, config.agreed_digest(), site.spec.identity)
    if not config.aggregate.secure or (request.experiment, request.agreed, request.spec) != agreed:
        raise WireError("asked for a stage of a sum this client has not agreed to")
    state = _state(site, request.experiment, request.round)
    if request.adapter != state.terms.adapter:
        raise SumRefused(f"round {request.round} was begun with another adapter")
    moved = _moved(request, data, state, site)
    if moved != state:
        site.buffer.sums.advance(request.experiment, request.round, moved.model_dump_json())
    return SiteReply(ClientStats(), _answer(request, moved, site))


def _moved(request: StageRequest, data: bytes, state: MemberState, site: Site) -> MemberState:
    """The state in which the stage is answered."""
    home = _home(site)
    if request.stage == "shares":
        return member.share_out(state, from_bytes(Roster, data), read_directory(home))
    if request.stage == "masked":
        return member.take_shares(state, from_bytes(ShareMail, data))
    if request.stage == "survivors":
        return member.confirm_survivors(state, from_bytes(Survivors, data), _signer(site))
    return member.unmask(state, from_bytes(Confirmations, data), read_directory(home))


def _answer(request: StageRequest, state: MemberState, site: Site) -> bytes:
    if request.stage == "masked":
        return masked_to_bytes(member.masked(state, _encoded(request, state, site)))
    answer = state.bundle if request.stage == "shares" else state.confirmation
    if request.stage == "unmask":
        return to_bytes(member.revealed(state))
    if answer is None:
        raise WireError(f"stage {request.stage} was not answered yet")
    return to_bytes(answer)


def _encoded(request: StageRequest, state: MemberState, site: Site) -> Whole:
    kept = site.buffer.sums.encoded(request.experiment, request.round)
    if kept is None:
        raise WireError(f"the update of round {request.round} is not kept any more")
    return masked_from_bytes(kept, state.terms.size)


def _state(site: Site, experiment: str, round: int) -> MemberState:
    kept = site.buffer.sums.state(experiment, round)
    if kept is None:
        raise SumRefused(
            f"there is no sum of round {round} under way: it was not begun, or is over",
            hint="a round is summed once; ask for the next one",
        )
    return MemberState.model_validate_json(kept)


def _signer(site: Site) -> Signer:
    signer = new_signer(_home(site))
    if signer is None:
        raise ConfigError("a secure sum needs a signing key", hint="pip install 'fed-se[secure]'")
    return signer


def _home(site: Site) -> Path:
    if site.home is None:
        raise ConfigError(f"{site.client} has no folder of its own, which a secure sum needs")
    return site.home
