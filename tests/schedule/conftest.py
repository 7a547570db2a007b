import sys
from pathlib import Path

# random_fleets.py and slot_by_slot.py
sys.path.insert(0, str(Path(__file__).parent))
