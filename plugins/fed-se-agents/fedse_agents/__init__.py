"""For agent programs that own their loop: `env = "program"`, see program.py."""

from fedse_agents.program import Program as Program
