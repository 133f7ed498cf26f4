"""A site's part in a secure sum: its adapter stays here, and only masked numbers leave.

Each answer follows from a state that is on disk before it leaves, so a stage that is asked again,
also after a crash, gets the same bytes, and one that is asked in another way is refused.
"""

import secrets
from pathlib import Path

import numpy as np

from fedse.aggregate.factors import (
    layout_of,
    learned_part,
    travelling_spec,
    with_resting_factor,
)
from fedse.errors import ConfigError, WireError
from fedse.ledger.keys import Signer, new_signer
from fedse.method.site import Site
from fedse.protocol import Question, SiteReply
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
from fedse.secure_sum.roster import Roster, SumTerms, sum_terms
from fedse.site.steps import Asked, Next
from fedse.types import AdapterSpec, ClientStats


def announce(asked: Asked, rest: Next) -> SiteReply:
    """What leaves of a finished vote: its numbers, and signed keys in place of the adapter."""
    done, question, site = rest(asked), asked.question, asked.site
    if done.adapter is None or not question.trains:
        return done
    part = travelling_spec(site.spec, asked.config)
    terms = sum_terms(asked.config, part, round=question.round, adapter=question.adapter)
    sums, key = site.buffer.sums, (question.experiment, question.round)
    if not sums.is_known(*key):
        encoded = (
            done.adapter if asked.config.step.on else _update(asked, part, done.adapter, terms)
        )
        state = member.announce(
            terms,
            site.client,
            _signer(site),
            draw=secrets.token_bytes,
            blocks=layout_of(done.adapter, part).blocks if terms.blocks else (),
        )
        sums.begin(*key, state.model_dump_json(), encoded)
    state = _state(site, *key)
    if state.terms != terms:
        raise SumRefused(
            f"round {question.round} was begun with another adapter or other settings",
            hint="a round is summed once; ask for the next one",
        )
    return SiteReply(done.stats, to_bytes(state.announcement))


def _update(asked: Asked, part: AdapterSpec, vote: bytes, terms: SumTerms) -> bytes:
    """The update of a vote, shortened to the bound, as whole numbers."""
    start = learned_part(asked.adapter, part)
    whole = with_resting_factor(vote, layout_of(vote, part), start)
    end = np.frombuffer(whole, dtype="<f4", offset=len(part.header))
    return masked_to_bytes(encode(start.vector, end, terms.form))


def answer_stage(asked: Asked, rest: Next) -> SiteReply:
    """The site's answer to one stage of the sum of a round that it has announced keys for."""
    question, site = asked.question, asked.site
    state = _state(site, question.experiment, question.round)
    if question.adapter != state.terms.adapter:
        raise SumRefused(f"round {question.round} was begun with another adapter")
    moved = _moved(question, asked.body, state, site)
    if moved != state:
        site.buffer.sums.advance(question.experiment, question.round, moved.model_dump_json())
    return SiteReply(ClientStats(), _answer(question, moved, site))


def _moved(question: Question, data: bytes, state: MemberState, site: Site) -> MemberState:
    """The state in which the stage is answered."""
    home = _home(site)
    if question.kind == "shares":
        return member.share_out(state, from_bytes(Roster, data), read_directory(home))
    if question.kind == "masked":
        return member.take_shares(state, from_bytes(ShareMail, data))
    if question.kind == "survivors":
        return member.confirm_survivors(state, from_bytes(Survivors, data), _signer(site))
    return member.unmask(state, from_bytes(Confirmations, data), read_directory(home))


def _answer(question: Question, state: MemberState, site: Site) -> bytes:
    if question.kind == "masked":
        return masked_to_bytes(member.masked(state, _encoded(question, state, site)))
    answer = state.bundle if question.kind == "shares" else state.confirmation
    if question.kind == "unmask":
        return to_bytes(member.revealed(state))
    if answer is None:
        raise WireError(f"stage {question.kind} was not answered yet")
    return to_bytes(answer)


def _encoded(question: Question, state: MemberState, site: Site) -> Whole:
    kept = site.buffer.sums.encoded(question.experiment, question.round)
    if kept is None:
        raise WireError(f"the update of round {question.round} is no longer kept")
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
