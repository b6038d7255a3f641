"""Benchmarks: each prints its numbers against a reference of the same run and writes docs/performance.md."""
