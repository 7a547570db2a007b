"""The command slotwise rollout: its commands are called with the number of a device."""

from slotwise.cli import live_setup


def test_commands_are_called_for_each_device_and_the_exit_code_follows(slotwise, tmp_path, monkeypatch):
    called = []

    class Stub:
        def __init__(self, options, read, call, notice):
            self._options, self._call, self._notice = options, call, notice

        def run(self):
            called.append(self._options.canaries)
            self._notice("device 7: 0.2")
            return self._call(self._options.upgrade, 7)

    monkeypatch.setattr(live_setup, "Rollout", Stub)
    log = tmp_path / "log"
    options = ["--to-version", "0.2", "--back", "echo {device}", "--canaries", 3]
    code, _, errors = slotwise("rollout", tmp_path, *options, "--upgrade", f"echo up {{device}} > {log}")
    assert (code, errors, log.read_text()) == (0, "device 7: 0.2\n", "up 7\n")
    code, _, _ = slotwise("rollout", tmp_path, *options, "--upgrade", "test {device} = 8")
    assert (code, called) == (1, [3, 3])


def test_what_is_missing_or_wrong_is_one_line(slotwise, tmp_path):
    commands = ["--upgrade", "up {device}", "--back", "back {device}"]
    code, _, errors = slotwise("rollout", tmp_path, *commands)
    assert code == 2
    assert "--to-version is missing" in errors
    code, _, errors = slotwise("rollout", tmp_path, "--to-version", "0.2", *commands, "--back", "back")
    assert code == 2
    code, _, errors = slotwise("rollout", tmp_path, "--to-version", "0.2", *commands)
    assert code == 2
    assert "status.json" in errors
