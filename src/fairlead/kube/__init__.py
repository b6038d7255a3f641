"""The Kubernetes port: list and watch become events, commands become API calls."""
