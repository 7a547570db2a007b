from slotwise.gym.agents import BASELINES as BASELINES
from slotwise.gym.agents import Comparison as Comparison
from slotwise.gym.agents import compare as compare
from slotwise.gym.training import TrainingEnv as TrainingEnv
from slotwise.gym.uplink import UplinkEnv as UplinkEnv
