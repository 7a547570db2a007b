import sys
from pathlib import Path

# live.py, tasks.py and processes.py; the processes that the tests start import tasks.py too.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "protocol_1"), str(HERE / "udp")]
