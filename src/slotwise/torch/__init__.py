"""Tasks from any torch module."""
