"""slotwise: federated learning over time-slotted channels."""
from slotwise.errors import InputError, UserError
from slotwise.scenario import Scenario
from slotwise.schedule import Timeline, simulate
