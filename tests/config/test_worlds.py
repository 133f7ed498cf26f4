"""Environments are called by their own names, not by where their code lies."""

from fedse.config.worlds import world_names


def test_a_class_stands_for_its_module_unless_two_would_be_called_the_same():
    assert world_names(["maze", "desk:Refund", "a.b:Refund", "env:MyEnv", "odd:"]) == {
        "maze": "maze",
        "desk:Refund": "desk:Refund",
        "a.b:Refund": "a.b:Refund",
        "env:MyEnv": "MyEnv",
        "odd:": "odd:",
    }
    assert world_names([]) == {}
