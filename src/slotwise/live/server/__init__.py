"""The server of a live run: what it knows, checks, sends and stores."""
