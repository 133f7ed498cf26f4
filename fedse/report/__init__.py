"""A run folder in, one self-contained HTML page out: facts -> tables -> figures -> page.

Nothing here runs an agent, needs a model library or uses the network.
"""
