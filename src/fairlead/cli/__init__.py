"""The command line. With `fairlead.app` the only place that knows every package."""
