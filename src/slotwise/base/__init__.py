"""No domain: errors, files, the machine, user code, observers, random streams."""
