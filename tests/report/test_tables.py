from slotwise.report.tables import sparkline


def test_a_curve_in_one_line() -> None:
    assert sparkline([1, 2, 3, 8]) == "▁▂▃█"
    assert sparkline([]) == ""
