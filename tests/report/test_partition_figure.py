"""Pictures of partitions: which panels they have, and the text for a terminal."""

import numpy as np

from slotwise.data import LabelCounts
from slotwise.report.partition_figure import partition_figure, partition_text
from slotwise.report.plotting import save_figure


def made(counts: list[list[int]]) -> LabelCounts:
    array = np.array(counts)
    return LabelCounts(array, int(array.sum()), int(array.sum()), "made")


def test_sizes_are_drawn_if_they_differ_and_numbers_if_there_are_few_devices() -> None:
    equal, unequal = partition_figure(made([[2, 0], [1, 1]])), partition_figure(made([[2, 0], [1, 3]]))
    assert [axes.get_title() for axes in equal.axes] == ["made, 2 samples each", ""]  # with a colour bar
    assert [axes.get_title() for axes in unequal.axes] == ["made", "", ""]
    assert [text.get_text() for text in equal.axes[0].texts] == ["2", "1", "1"]
    figure = partition_figure(made([[1] * 30] * 250))
    assert not figure.axes[0].texts
    assert figure.axes[0].get_xticks().tolist() == [1, 50, 100, 150, 200, 250]
    assert save_figure(figure, "pdf").startswith(b"%PDF")


def test_the_title_has_one_line_if_it_fits() -> None:
    title = "MNIST, dirichlet (concentration 0.3), 20 devices, 250 samples each"
    counts = made([[2, 0], [1, 3]])
    short = partition_figure(LabelCounts(counts.counts, 6, 6, title))
    assert short.axes[0].get_title() == title
    broken = partition_figure(LabelCounts(counts.counts, 6, 6, f"{title}, {title}"))
    assert "\n" in broken.axes[0].get_title()
    assert broken.axes[0].title.get_window_extent().width < broken.bbox.width


def test_titles_break_after_commas_and_no_samples_are_no_colour_of_the_bar() -> None:
    title = "MNIST, dirichlet-per-class (concentration 0.5, min samples 10, self balancing off), 40 devices"
    figure = partition_figure(LabelCounts(np.array([[900, 0], [1, 3300]]), 4201, 4201, title))
    sizes, _, bar = figure.axes
    lines = sizes.get_title().split("\n")
    assert " ".join(lines) == title
    assert all(line.endswith(",") for line in lines[:-1])
    assert sizes.get_yticks()[-1] == sizes.get_ylim()[1] >= 3300
    assert (bar.get_ylim(), bar.get_yticks()[0]) == ((1, 3300), 1)
    assert partition_figure(made([[1, 0], [0, 1]])).axes[1].get_yticks().tolist() == [1]


def test_text_has_numbers_if_they_fit_and_shades_otherwise() -> None:
    text = partition_text(made([[1200, 0], [3, 40]]), width=60)
    assert text.splitlines() == [
        "made",
        "1,243 of 1,243 samples; 43 to 1,200 samples and 1 to 2 labels on a device",
        "",
        "device       1   2",
        "label 0  1,200   3",
        "label 1      ·  40",
        "samples  1,200  43",
    ]
    text = partition_text(made([[8, 0], [4, 4]] * 20), width=40)
    lines = text.splitlines()[3:]
    assert lines[:4] == [
        "         devices 1 to 31",
        "label 0  " + "█▒" * 15 + "█",
        "label 1  " + "·▒" * 15 + "·",
        "samples  " + "█" * 31,
    ]
    assert lines[5] == "         devices 32 to 40"
    assert lines[-1] == "· none, ░ up to 2, ▒ up to 4, ▓ up to 6, █ up to 8 samples; ▁ to █: sizes up to 8"
