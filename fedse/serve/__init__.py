"""For agent programs that own their loop: `env = "fedse.serve:Program"`, see program.py."""

from fedse.serve.program import Program as Program
