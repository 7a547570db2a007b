from slotwise.bench.measure import interleaved, machine, median_ratio, sgemm_rate


def test_ways_are_measured_in_turns_after_a_warm_up() -> None:
    calls: list[str] = []

    def way(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    results = interleaved({"a": lambda: way("a"), "b": lambda: way("b")}, repeats=2)
    assert calls == ["a", "b"] * 3
    assert results == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_a_ratio_compares_measurements_of_the_same_turn() -> None:
    assert median_ratio([10.0, 1.0, 30.0], [5.0, 1.0, 10.0]) == 2.0


def test_the_matrix_product_has_a_rate() -> None:
    assert sgemm_rate() > 0.1


def test_the_machine_is_described_in_one_line() -> None:
    assert "cores" in machine()
    assert "\n" not in machine()
