"""The tables of the documentation, made again from pinned settings and seeds."""
