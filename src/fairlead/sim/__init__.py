"""The simulated port: a world in which bound pods run, for scenarios, properties and (later) traces."""
