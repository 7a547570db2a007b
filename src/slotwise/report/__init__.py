"""Timelines and results for people to read: text, pictures and pages."""

from slotwise.report.activity import Activities, Activity, activities
from slotwise.report.gantt import check_picture_path, write_gantt
from slotwise.report.window import Window

__all__ = ["Activities", "Activity", "Window", "activities", "check_picture_path", "write_gantt"]
