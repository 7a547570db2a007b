import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).parent)
)  # live.py and tasks.py, which processes of the tests import too
