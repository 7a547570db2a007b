"""The command line: parse, call, print. User errors end with exit code 2 and one line."""

try:
    from slotwise.cli.app import main
except KeyboardInterrupt:  # Ctrl-C while modules load ends as quietly as later
    raise SystemExit(130) from None

__all__ = ["main"]
