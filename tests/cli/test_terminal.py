def test_a_narrow_terminal_cuts_nothing_out_of_a_table(slotwise, monkeypatch):
    command = ("plan", "--devices", 100, "--group-size", 25, "--compute-slots", 50, "--deadline", 50_000)
    monkeypatch.setenv("COLUMNS", "80")
    _, wide, _ = slotwise(*command)
    monkeypatch.setenv("COLUMNS", "40")
    _, narrow, _ = slotwise(*command)
    assert narrow == wide
    assert "…" not in narrow
