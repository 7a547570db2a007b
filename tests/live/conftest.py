import sys
from pathlib import Path

# live.py, tasks.py and processes.py; the processes that the tests start import tasks.py too.
sys.path.insert(0, str(Path(__file__).parent))
