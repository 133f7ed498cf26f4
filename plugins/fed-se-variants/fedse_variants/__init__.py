"""Ways to merge, to select and to learn that brought no gain in the tables of Fed-SE.

They are kept as a package of their own, so that the tables can be made again, and as an example: it
uses nothing of fedse but its public names and `fedse.extend`.
"""
