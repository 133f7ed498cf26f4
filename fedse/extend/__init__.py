"""What packages that extend fedse may import, besides the names of `fedse` itself.

`merging` is for entry points of the group fedse.aggregates, `selecting` for fedse.selects, and
`learning` for fedse.losses, with `losses` for what needs torch. Whatever is not here may change.
"""
