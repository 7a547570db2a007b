from slotwise.machine import available_cores, describe_machine, processor


def test_the_machine_is_described_in_one_line() -> None:
    assert f"{processor()}, {available_cores()} cores" in describe_machine()
    assert "\n" not in describe_machine()
