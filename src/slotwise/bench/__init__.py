"""Benchmarks that users can run: the common job, in several ways, in one interleaved run."""
