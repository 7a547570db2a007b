"""Timelines and results for people to read: text, pictures and pages."""

from slotwise.report.activity import Activities, Activity, activities
from slotwise.report.gantt import write_gantt
from slotwise.report.gantt_text import gantt_text
from slotwise.report.window import Window

__all__ = ["Activities", "Activity", "Window", "activities", "gantt_text", "write_gantt"]
