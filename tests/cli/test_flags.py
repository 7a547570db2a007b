"""Values of flags that are refused with the reason."""


def test_a_list_that_begins_with_a_negative_number_is_refused_as_a_list(slotwise, tmp_path) -> None:
    code, _, errors = slotwise("train", "--device-samples", "-1,1", "--out", tmp_path / "run")
    assert (code, errors.count("\n")) == (2, 1)
    assert "--device-samples -1 of device 1" in errors


def test_a_repeated_tracker_is_named(slotwise, tmp_path) -> None:
    code, _, errors = slotwise("train", "--track", "mlflow,wandb,wandb", "--out", tmp_path / "run")
    assert (code, errors.count("\n")) == (2, 1)
    assert "wandb is repeated" in errors
