"""Benchmarks that users can run: several ways to do one common job, measured in turns."""
