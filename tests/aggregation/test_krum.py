import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from updates import MODEL, SIZE, arrived, rounds

from slotwise.aggregation import Contribution, Krum, MultiKrum, Vector, mean


def naive_order(updates: list[Vector], byzantine: int) -> list[int]:
    """Positions by score, in plain Python."""
    points = [[float(x) for x in update] for update in updates]
    scores = []
    for i, one in enumerate(points):
        squared = [
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
            for j, other in enumerate(points)
            if j != i
        ]
        scores.append(sum(sorted(squared)[: max(1, len(points) - byzantine - 2)]))
    return sorted(range(len(points)), key=lambda i: (scores[i], i))


# Whole numbers, so that sums are exact in any order and ties are ties.
small = st.lists(
    st.lists(st.integers(-50, 50), min_size=SIZE, max_size=SIZE).map(lambda x: np.array(x, dtype=np.float32)),
    min_size=1,
    max_size=9,
)


@given(small, st.integers(1, 3))
def test_it_selects_what_a_naive_one_selects(updates: list[Vector], byzantine: int) -> None:
    order = naive_order(updates, byzantine)
    assert np.array_equal(Krum(byzantine)(MODEL, arrived(updates)), -updates[order[0]])
    for count in range(1, len(updates) + 1):
        expected = mean(MODEL, arrived([updates[i] for i in order[:count]]))
        assert np.array_equal(MultiKrum(byzantine, count)(MODEL, arrived(updates)), expected)


@given(st.data(), small, st.integers(1, 3))
def test_the_order_of_the_uplinks_does_not_matter(
    data: st.DataObject, updates: list[Vector], byzantine: int
) -> None:
    sent = arrived(updates)
    shuffled: list[Contribution] = data.draw(st.permutations(sent))
    for rule in (Krum(byzantine), MultiKrum(byzantine)):
        assert rule(MODEL, sent).tobytes() == rule(MODEL, shuffled).tobytes()


@given(rounds, st.integers(1, 3))
def test_krum_is_one_of_the_updates(updates: list[Vector], byzantine: int) -> None:
    found = Krum(byzantine)(MODEL, arrived(updates))
    assert any(np.array_equal(found, -update) for update in updates)


@given(rounds)
def test_all_selected_is_the_mean_but_for_the_order_of_the_sum(updates: list[Vector]) -> None:
    found = MultiKrum(1, len(updates))(MODEL, arrived(updates))
    np.testing.assert_allclose(found, mean(MODEL, arrived(updates)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [1e20, np.inf, np.nan])
@pytest.mark.parametrize("rule", [Krum(2), MultiKrum(2)], ids=["krum", "multi-krum"])
def test_attackers_that_agree_are_not_selected(rule: Krum, bad: float) -> None:
    draw = np.random.default_rng(0)
    honest = [draw.normal(1, 0.1, SIZE).astype(np.float32) for _ in range(5)]
    attacks = [np.full(SIZE, bad, dtype=np.float32)] * 2
    with np.errstate(all="ignore"):
        found = -rule(MODEL, arrived([*attacks, *honest]))
    assert (np.min(honest, axis=0) <= found).all()
    assert (found <= np.max(honest, axis=0)).all()


def test_multi_krum_averages_s_minus_f_minus_2_by_default() -> None:
    updates = [np.full(SIZE, value, dtype=np.float32) for value in (0, 1, 2, 3, 4, 100, 200)]
    expected = MultiKrum(2, 3)(MODEL, arrived(updates))
    assert np.array_equal(MultiKrum(2)(MODEL, arrived(updates)), expected)
