"""One number, one meaning: what a site may say went wrong, and the server's words for it."""

import pytest

from fedse import errors
from fedse.faults import WORDS, Fault


def test_every_fault_has_words_of_its_own():
    assert set(WORDS) == set(Fault)
    assert len(set(WORDS.values())) == len(Fault)


@pytest.mark.parametrize("error", errors.FedSEError.__subclasses__(), ids=lambda e: e.__name__)
def test_the_exit_code_of_every_error_is_a_fault(error: type[errors.FedSEError]):
    """RuleRefusal takes its fault as an argument; others have one of their own below 20."""
    if error.__module__ == errors.__name__:
        assert error.exit_code in set(Fault)
        assert error.exit_code < Fault.UNREACHABLE


def test_a_number_of_a_later_version_is_kept_and_told_as_unforeseen():
    later = Fault(99)
    assert (int(later), later.words) == (99, Fault.UNFORESEEN.words)
    assert not later.abstains
    assert not later.passing
    with pytest.raises(ValueError, match="text"):
        Fault("text")


def test_only_a_site_that_chose_so_abstains_and_only_a_crash_or_a_full_disk_passes():
    assert [fault.name for fault in Fault if fault.abstains] == [
        "PAUSED",
        "VETOED",
        "PRIVACY_SPENT",
        "WITHHELD",
    ]
    passing = [fault.name for fault in Fault if fault.passing]
    assert passing == ["UNREACHABLE", "GARBLED", "FULL_DISK"]
