"""The roles of an agent, from round to round: who gives the gradient, who learns, who moves."""

from fedse.report.facts import RunFacts
from fedse.report.figures import PageSection
from fedse.report.tables import RATE_COLUMNS, ROUND, Column, Table, rate_cells
from fedse.results.role_course import role_course

COLUMNS = (
    ROUND,
    Column("role", "role"),
    Column("share", "share of the gradient", "rate"),
    Column("loss", "loss, nats per token", "number"),
    Column("drift", "drift", "number"),
    *RATE_COLUMNS,
)


def roles(facts: RunFacts, id: str) -> PageSection:
    rows = [
        [one.round, one.role, one.share, one.loss, one.drift, *rate_cells(one.played)]
        for one in role_course(facts.results, facts.config)
    ]
    policy = facts.config.roles.policy
    lead = (
        f"Does every role learn? The policy is {policy}. The share is that of the norms of the "
        "roles' gradients, drift is how far the part of the adapter in which a role acts moved in "
        "a round, and the games are those played to learn from."
    )
    named = "Per round and role, all clients together"
    return PageSection(id, "Roles", lead, [], Table(COLUMNS, rows), named)
