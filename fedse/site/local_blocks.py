"""Blocks of the adapter that are a site's own: they act and learn here, and nothing of them leaves.

Whatever comes has in their place what every run begins with, and the site puts its own there before
it acts, is measured or trains. They are stored with the vote that was trained with them, so a site
that was killed anywhere goes on with the same.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedse.blocks import span_of, with_blocks
from fedse.config.schema import Config
from fedse.method.site import Site
from fedse.protocol import SiteReply
from fedse.site.own_adapters import GLOBAL
from fedse.site.steps import Asked, Next
from fedse.types import Adapter


def act_with_own_blocks(asked: Asked, rest: Next) -> SiteReply:
    """The question is answered with the site's own blocks in the adapter that came.

    A copy of the federation's adapter is kept without them, so that it is nobody's own.
    """
    if not asked.config.roles.local:
        return rest(asked)
    came, site, question = asked.adapter, asked.site, asked.question
    # What is judged would act in the next round, with the blocks of this one.
    before = question.round + (question.kind == "validate")
    current = with_own_blocks(came, site, asked.config, before=before)

    def keep(name: str, round: int, adapter: Adapter) -> None:
        site.keep(name, round, came if name == GLOBAL else adapter)

    return rest(replace(asked, current=current, site=replace(site, keep=keep)))


def with_own_blocks(
    adapter: Adapter, site: Site, config: Config, *, before: int | None = None
) -> Adapter:
    """The adapter with what the site's last vote before that round has left of its own blocks."""
    if not config.roles.local:
        return adapter
    kept = site.buffer.outbox.local.newest(config.run.name, before=before, since=config.model.since)
    parts = {
        block: np.frombuffer(kept[block], "<f4")
        for block in _own(config, site.client)
        if block in kept
    }
    return with_blocks(adapter, parts) if parts else adapter


def own_blocks(adapter: Adapter, config: Config, client: str) -> Mapping[str, bytes]:
    """The blocks of a trained adapter that stay here."""
    return {
        block: adapter.vector[span_of(adapter.spec, block)].astype("<f4", copy=False).tobytes()
        for block in _own(config, client)
    }


def _own(config: Config, client: str) -> tuple[str, ...]:
    return config.roles.blocks_kept(config.client(client).roles)
