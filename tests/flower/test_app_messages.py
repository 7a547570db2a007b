"""What is taken from the replies of a ClientApp."""

import pytest

from slotwise.flower.app_messages import mean_metrics


def test_metrics_are_weighted_by_the_samples_of_the_replies_that_have_them() -> None:
    replies = [(1, {"loss": 4.0, "accuracy": 0.5}), (3, {"loss": 2.0})]
    assert mean_metrics(replies) == pytest.approx({"loss": 2.5, "accuracy": 0.5})
    assert mean_metrics([]) == {}
