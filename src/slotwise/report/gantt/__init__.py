"""Gantt charts of a timeline: as text and as a figure; `slotwise.web.timeline_view` makes a page."""

from slotwise.report.gantt.chart import Window, whole_window, window_of
from slotwise.report.gantt.drawing import SUFFIXES, check_picture_path, compose, write_gantt
from slotwise.report.gantt.text_chart import gantt_text

__all__ = [
    "SUFFIXES",
    "Window",
    "check_picture_path",
    "compose",
    "gantt_text",
    "whole_window",
    "window_of",
    "write_gantt",
]
