from slotwise.live.server.rate_limit import RateLimit


def test_a_burst_is_allowed_and_then_a_rate_for_each_device_by_itself():
    limit = RateLimit(3, 0.5)
    assert [limit.allows(1, 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert limit.allows(2, 0.0)
    assert not limit.allows(1, 1.0)
    assert limit.allows(1, 2.0)
    assert not limit.allows(1, 2.0)
    assert [limit.allows(1, 100.0) for _ in range(4)] == [True, True, True, False]
