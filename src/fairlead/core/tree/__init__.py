"""The containment tree: typed pools in a hierarchy, who holds them and when, and matching jobspecs to them.

`columns` holds the pools, `bookings` the time, `walk` one match, `graph` the operations on all of it.
"""
