from slotwise.flower.node_server import NodesOutcome as NodesOutcome
from slotwise.flower.node_server import serve as serve
from slotwise.flower.project import FlowerApp as FlowerApp
from slotwise.flower.project import flower_task as flower_task
from slotwise.flower.slot_grid import SlotGrid as SlotGrid
from slotwise.flower.slot_grid import StrategyRun as StrategyRun
from slotwise.flower.slot_grid import run_strategy as run_strategy
