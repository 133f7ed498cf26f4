"""An agent in service: gateway, outcomes, and adapters that have to prove themselves."""
