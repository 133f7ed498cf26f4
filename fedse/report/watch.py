"""The coordinator's page: a fixed text whose script polls its own server for the current state.

No text of a federation is in the page itself; the script writes it as text, never as markup.
"""

from fedse.report.page import asset, policy


def watch_page() -> tuple[str, str]:
    """The page and the policy to serve it with; it may contact only its own server."""
    style, script = asset("page.css"), asset("watch.js")
    text = asset("watch.html").replace("{style}", style).replace("{script}", script)
    rules = f"{policy([script], style)}; connect-src 'self'; frame-ancestors 'none'"
    return text, rules
