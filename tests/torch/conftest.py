"""Make torch_cases.py and torch_zoo.py importable, and live.py with what it imports."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "live"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
