"""Timelines and results for readers: text, tables, pictures and pages."""

from slotwise.report.gantt import gantt_text, write_gantt

__all__ = ["gantt_text", "write_gantt"]
