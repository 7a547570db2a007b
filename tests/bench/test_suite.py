import pytest

from slotwise.bench.common_job import NETWORK
from slotwise.bench.suite import (
    LOOP,
    ONE,
    SGEMM,
    TWO,
    Results,
    interleaved,
    median_ratio,
    sgemm_rate,
    summary,
)

RATES = {SGEMM: [100.0, 100.0], LOOP: [50.0, 100.0], ONE: [200.0, 300.0], TWO: [400.0, 600.0]}


def test_shares_count_two_operations_per_multiply_add_of_a_batch() -> None:
    flops_per_step = 2 * NETWORK.dense_multiply_adds * 64
    share = Results(RATES).share_of_sgemm(ONE, NETWORK.dense_multiply_adds)
    assert share == pytest.approx(250 * flops_per_step / 1e11)


def test_the_summary_has_a_row_for_each_way_and_the_ratios_of_what_was_measured() -> None:
    figures = summary(Results(RATES))
    assert [row["way"] for row in figures["ways"]] == [SGEMM, LOOP, ONE, TWO]
    assert figures["ratios"] == {f"{TWO} / {LOOP}": 7.0, f"{TWO} / {ONE}": 2.0}


def test_without_torch_nothing_is_compared_with_its_loop() -> None:
    rates = {name: values for name, values in RATES.items() if name != LOOP}
    figures = summary(Results(rates))
    assert figures["ways"][1]["against_loop"] is None


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
