import numpy as np
import pytest

from slotwise.bench import (
    LOOP,
    NETWORK,
    ONE,
    SGEMM,
    TWO,
    Results,
    common_samples,
    common_timeline,
    interleaved,
    median_ratio,
    sgemm_rate,
    summary,
)
from slotwise.data import Dataset, load_mnist

RATES = {SGEMM: [100.0, 100.0], LOOP: [50.0, 100.0], ONE: [200.0, 300.0], TWO: [400.0, 600.0]}


def test_summaries_compare_measurements_of_the_same_turn() -> None:
    flops_per_step = 2 * NETWORK.dense_multiply_adds * 64
    share = Results(RATES).share_of_sgemm(ONE, NETWORK.dense_multiply_adds)
    assert share == pytest.approx(250 * flops_per_step / 1e11)
    figures = summary(Results(RATES))
    assert [row["way"] for row in figures["ways"]] == [SGEMM, LOOP, ONE, TWO]
    assert figures["ratios"] == {f"{TWO} / {LOOP}": 7.0, f"{TWO} / {ONE}": 2.0}
    rates = {name: values for name, values in RATES.items() if name != LOOP}
    figures = summary(Results(rates))
    assert figures["ways"][1]["against_loop"] is None
    assert median_ratio([10.0, 1.0, 30.0], [5.0, 1.0, 10.0]) == 2.0


def test_ways_are_measured_in_turns_after_a_warm_up() -> None:
    calls: list[str] = []

    def way(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    results = interleaved({"a": lambda: way("a"), "b": lambda: way("b")}, 2, lambda: None)
    assert calls == ["a", "b"] * 3
    assert results == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_the_matrix_product_has_a_rate() -> None:
    assert sgemm_rate() > 0.1


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return load_mnist()


def test_the_job_is_the_paper_s(mnist: Dataset) -> None:
    rows = np.array(common_samples(mnist).rows)
    assert rows.shape == (100, 250)
    assert np.array_equal(mnist.train_targets[rows], np.tile((np.arange(100) % 10)[:, None], 250))
    assert len(common_samples(mnist).union) == 100 * 250
    samples = common_samples(mnist, 10_000)
    assert sum(own.nbytes for own in samples.rows) == 10_000 * 250 * 4
    assert samples.dataset is mnist
    timeline = common_timeline(rounds=10)
    assert timeline.device.tolist() == list(range(1, 101))
    assert timeline.max_staleness() == 0
    assert NETWORK.parameters == 21_840
