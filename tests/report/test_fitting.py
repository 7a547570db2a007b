from slotwise.report.fitting import fit


def test_a_label_with_room_is_written_sideways_at_the_largest_size() -> None:
    assert fit(2, 100, 30, 5, 9) == (9, False)


def test_a_label_shrinks_to_its_block() -> None:
    found = fit(3, 15, 30, 5, 9)
    assert found is not None
    assert not found.upright
    assert 5 <= found.size < 9


def test_a_narrow_block_is_written_upright() -> None:
    found = fit(3, 8, 30, 5, 9)
    assert found is not None
    assert found.upright


def test_a_label_is_turned_where_that_makes_it_a_good_deal_larger() -> None:
    assert fit(2, 9, 36, 4, 9) == (9, True)


def test_a_label_without_room_is_left_out() -> None:
    assert fit(3, 3, 30, 5, 9) is None
