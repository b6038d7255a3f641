"""The database port: groups, grants, reservations, leadership; and its in-memory twin."""
