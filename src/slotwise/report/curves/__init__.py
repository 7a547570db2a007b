"""Figures of training curves: `panels` is their content, `plotting` draws them, `run_curves` reads runs."""
