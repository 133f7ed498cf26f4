"""`fedse privacy`: what leaves a site, what that reveals, and what protects it."""

from cyclopts import App

from fedse.cli.audit import audit
from fedse.cli.encrypt import encrypt
from fedse.cli.forget import forget
from fedse.cli.privacy_budget import budget
from fedse.cli.privacy_explain import explain
from fedse.cli.privacy_plan import plan
from fedse.cli.privacy_report import report
from fedse.cli.redact import redact
from fedse.cli.sum_keys import keys

app = App(name="privacy", help_format="plaintext", help_epilogue="")
for command in (report, explain, plan, budget, audit, redact, forget, encrypt, keys):
    app.command(command)
