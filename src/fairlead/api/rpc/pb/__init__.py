"""The messages of the gRPC doors: `*.proto`, and what `make proto` makes of them; edit only the former."""
