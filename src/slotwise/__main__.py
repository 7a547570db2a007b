"""`python -m slotwise`: the command line, where the command `slotwise` is not on the PATH."""

from slotwise.cli import main

if __name__ == "__main__":
    main()
