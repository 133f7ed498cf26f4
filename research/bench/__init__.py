"""Ratios measured in one run: what fedse costs beside the bare tools it stands on."""
