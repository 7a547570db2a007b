import pytest

from slotwise.base.errors import UserError
from slotwise.runs.device_data import DataUse, changed_sources, refuse_mixed_data


def test_only_hashes_of_one_source_are_compared() -> None:
    uses = [DataUse("a", "cifar10", "1"), DataUse("b", "/data", "2"), DataUse("c", "/data", "2")]
    assert changed_sources(uses) == {}
    assert changed_sources([*uses, DataUse("d", "/data", "3")]) == {"/data": {"2": ["b", "c"], "3": ["d"]}}
    refuse_mixed_data([DataUse("a", "mnist", None), DataUse("b", "mnist", None), DataUse("c", "mnist", "1")])
    uses = [DataUse(f"run{number}", "/data", "1") for number in range(100)]
    with pytest.raises(UserError, match="97 more") as refused:
        refuse_mixed_data([*uses, DataUse("other", "/data", "2")])
    assert "other" in str(refused.value)
