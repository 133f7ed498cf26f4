"""The promises of the contract, all of them tried."""

from fedse.envs.conformance.check import CHECKS, CheckReport

PROMISES = [name for name, *_ in CHECKS]


def assert_all_kept(report: CheckReport) -> None:
    """Every promise there is was tried and kept; none was skipped."""
    assert [check.name for check in report.checks] == PROMISES
    assert [check for check in report.checks if check.skipped or not check.ok] == []
