"""Values from flat tables and back, on a small declaration that has everything a declaration can have."""

import pickle
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.base.errors import ConflictError, InputError, NoEffectError, UserError
from slotwise.options import (
    Choice,
    Derived,
    Either,
    FileName,
    Found,
    Named,
    Range,
    StandsFor,
    build,
    choose,
    declared,
    found_names,
    names_of,
    nested,
    spread,
)
from slotwise.options import table_of as table
from slotwise.options.checks import check_fields
from slotwise.runs import RunConfig


@dataclass(frozen=True, kw_only=True)
class Rayleigh:
    """Exponential power.

    Attributes:
        block: Slots of a block.
    """

    block: Annotated[int, Range(least=1)] = 1

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Rician(Rayleigh):
    """A line of sight.

    Attributes:
        block: Slots of a block.
        k_db: Power of the line of sight.
    """

    k_db: Annotated[float, Range(least=-100, most=100), Named("sight_db")] = 6.0


def flat() -> str:
    """Return something without options."""
    return "flat"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Speeds one by one."""

    speeds: tuple[int, ...]
    order: str = "up"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Equal:
    """One speed."""

    speed: Annotated[int, Range(least=1)] = 5


@dataclass(frozen=True, kw_only=True)
class Ring:
    """All devices at one distance.

    Attributes:
        radius: Distance of all.
    """

    radius: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances one by one."""

    distances: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DistancesText(StandsFor):
    """Distances in a text, here in place of a file."""

    text: Annotated[str, FileName()]

    def meant(self) -> Distances:
        return Distances(distances=tuple(map(float, self.text.split())))


PLACE = Choice("place", {"ring": Ring}, prefix="place_", unnamed=(Distances, DistancesText))
FADING = Choice("fading", {"rayleigh": Rayleigh, "rician": Rician, "flat": flat}, prefix="fading_")


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link.

    Attributes:
        fading: Fading.
        place: Where devices are.
        speed: How fast it is.
        power: Power.
    """

    fading: Annotated[Any, FADING] = Rayleigh()
    place: Annotated[Any, PLACE] = Ring()
    speed: Annotated[Equal | Listed, Either((Equal, Listed))] = Equal()
    power: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting.

    Attributes:
        devices: Number of devices.
        link: The link: none, or radio.
        speed: How fast devices are.
        rule: What combines.
        found: Not an option.
    """

    devices: Annotated[int, Range(least=1)] = 100
    link: Annotated[Any, Choice("link", {"": None, "radio": Link}, prefix="link_")] = None
    speed: Annotated[Equal | Listed, Either((Equal, Listed))] = Equal()
    rule: Annotated[Any, Choice("rule", {"flat": flat}, own=(2,))] = flat
    found: Annotated[int, Derived()] = 0

    def __post_init__(self) -> None:
        check_fields(self)


USUAL = {"devices": 100, "link": None, "speed": 5, "rule": "flat"}


def test_a_table_has_only_the_options_of_what_was_chosen() -> None:
    assert table(Setting()) == USUAL
    assert table(Setting(link=Link())) == USUAL | {
        "link": "radio",
        "fading": "rayleigh",
        "fading_block": 1,
        "place": "ring",
        "place_radius": 5.0,
        "link_speed": 5,
        "link_power": 1.0,
    }


@given(
    devices=st.integers(1, 9),
    link=st.none()
    | st.builds(
        Link,
        power=st.floats(0, 1),
        place=st.builds(Ring, radius=st.floats(0, 1)) | st.just(Distances(distances=(1.0, 2.0))),
        speed=st.builds(Equal, speed=st.integers(1, 9)) | st.builds(Listed, speeds=st.just((1, 2))),
        fading=st.just(flat) | st.builds(Rayleigh) | st.builds(Rician, k_db=st.floats(-9, 9)),
    ),
    speed=st.builds(Equal, speed=st.integers(1, 9)) | st.builds(Listed, speeds=st.just((1, 2))),
)
def test_a_value_is_built_again_from_its_table(devices: int, link: Any, speed: Any) -> None:
    value = Setting(devices=devices, link=link, speed=speed)
    assert build(Setting, table(value)) == value


def test_declared_options_know_who_has_them() -> None:
    options = declared(Setting)
    assert options["fading_sight_db"].owners == ((("link", "radio"), ("fading", "rician")),)
    assert len(options["fading_block"].owners) == 2
    assert options["devices"].owners == ((),)
    assert options["devices"].help == "Number of devices."
    assert options["link"].default is None
    assert "found" not in options
    assert names_of(Setting, "speed") == ("speed", "speeds", "order")


@pytest.mark.parametrize(
    ("given", "kind", "parameter", "says"),
    [
        ({"fading_sight_db": 3.0}, NoEffectError, "fading_sight_db", "without link"),
        ({"link": "radio", "fading_sight_db": 3.0}, NoEffectError, "fading_sight_db", "with fading rayleigh"),
        (
            {"link": "radio", "fading": "rician", "fading_sight_db": 300.0},
            InputError,
            "fading_sight_db",
            "to 100",
        ),
        (
            {"link": "radio", "fading": "flat", "fading_block": 2},
            NoEffectError,
            "fading_block",
            "fading flat",
        ),
        ({"link": "laser"}, InputError, "link", "radio"),
        ({"devices": 0}, InputError, "devices", "at least 1"),
        ({"devices": 1.5}, InputError, "devices", "whole number"),
        ({"speed": 2, "speeds": [1, 2]}, ConflictError, "speed", "speeds"),
        ({"order": "down"}, NoEffectError, "order", "without speeds"),
        ({"link_speeds": [1]}, NoEffectError, "link_speeds", "without link"),
        ({"link": "radio", "link_order": "down"}, NoEffectError, "link_order", "without link_speeds"),
        ({"link": "radio", "link_speed": 1, "link_speeds": [1]}, ConflictError, "link_speed", "link_speeds"),
        ({"link": "radio", "place_distances": [1.0], "place": "ring"}, NoEffectError, "place", "place_dist"),
        ({"link": "radio", "place_text": "1", "place_radius": 1.0}, NoEffectError, "place_radius", "place_t"),
        ({"link": "radio", "place_text": "1", "place_distances": [1.0]}, ConflictError, "place_text", "dist"),
        ({"rule_options": {"a": 1}}, NoEffectError, "rule_options", "rule"),
        ({"rule": "not a name"}, InputError, "rule", "module:function"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_name(
    given: dict[str, Any], kind: type[Exception], parameter: str, says: str
) -> None:
    with pytest.raises(kind) as caught:
        build(Setting, given)
    assert caught.value.parameter == parameter  # type: ignore[attr-defined]
    assert says in str(caught.value)


def test_an_alternative_without_a_name_is_chosen_by_its_first_option() -> None:
    listed = build(Setting, {"link": "radio", "place_distances": [1.0, 2.0], "link_speeds": [3]})
    assert listed.link == Link(place=Distances(distances=[1.0, 2.0]), speed=Listed(speeds=(3,)))
    assert build(Setting, {"devices": 3}, listed).link == listed.link
    assert build(Setting, {"place": "ring"}, listed).link.place == Ring()
    assert declared(Setting)["place_text"].names_file


def test_what_stands_for_a_value_is_replaced_by_it() -> None:
    given = {"link": "radio", "place_text": "1 2"}
    assert build(Setting, given).link.place == Distances(distances=(1.0, 2.0))
    assert "place_text" not in table(build(Setting, given))


def test_an_unknown_option_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="device: did you mean devices"):
        build(Setting, {"device": 3})


def test_files_of_earlier_versions_may_have_options_without_effect() -> None:
    saved = USUAL | {"fading_sight_db": 3.0, "order": "down", "speeds": ()}
    assert build(Setting, saved, lenient=True) == Setting()
    placed = {"link": "radio", "place": "ring", "place_radius": 5.0, "place_distances": [1.0]}
    assert build(Setting, placed, lenient=True).link.place == Distances(distances=[1.0])
    assert build(Setting, {**placed, "place_distances": []}, lenient=True).link.place == Ring()


def test_options_that_are_not_given_come_from_the_start_as_long_as_they_belong_there() -> None:
    start = Setting(devices=7, link=Link(power=2.0, fading=Rician(k_db=1.0, block=4)))
    assert build(Setting, {"devices": 8}, start).link == start.link
    assert build(Setting, {"fading": "rayleigh"}, start).link == Link(power=2.0, fading=Rayleigh())
    assert build(Setting, {"link": None}, start) == Setting(devices=7)
    assert build(Setting, {"speeds": [3, 4]}, start).speed == Listed(speeds=(3, 4))


def test_a_choice_alone_is_read_in_the_same_way() -> None:
    assert choose(FADING, {"fading": "rician", "fading_sight_db": 2.0}) == Rician(k_db=2.0)
    with pytest.raises(NoEffectError):
        choose(FADING, {"fading": "rayleigh", "fading_sight_db": 2.0})


def test_tables_in_a_table_are_spread_and_nested_again() -> None:
    given = {"a": 1, "task_options": {"rate": 0.5, "size": 3}}
    assert spread(given) == {"a": 1, "task_options.rate": 0.5, "task_options.size": 3}
    assert nested(spread(given)) == given


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Samples in a folder, which are counted unless they are known."""

    folder: str
    counts: Annotated[tuple[int, ...], Found(of="folder")] = ()

    def __post_init__(self) -> None:
        if not self.counts:
            object.__setattr__(self, "counts", (len(self.folder),))


@dataclass(frozen=True, kw_only=True)
class Skewed:
    """Sizes that differ."""

    size: int = 5
    skew: float


@dataclass(frozen=True, kw_only=True)
class Same:
    """Equal sizes."""

    size: int = 5


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of samples."""

    samples: Annotated[Any, Either((Same, Skewed, Folder))] = Same()
    block: int = 1


def test_what_is_found_is_written_down_and_found_anew_elsewhere() -> None:
    here = build(Source, {"folder": "abc"})
    assert here.samples.counts == (3,)
    assert build(Source, table(here) | {"counts": [9]}, lenient=True).samples.counts == [9]
    assert build(Source, {"block": 2}, Source(samples=Folder(folder="abc", counts=(9,)))).samples.counts == (
        9,
    )
    assert build(Source, {"folder": "ab"}, here).samples == Folder(folder="ab")
    assert found_names(Source) == ("counts",)


def test_an_alternative_is_given_up_with_the_option_that_it_requires() -> None:
    for start in (Source(samples=Folder(folder="abc")), Source(samples=Skewed(skew=0.5))):
        assert build(Source, {"folder": None, "skew": None}, start) == Source()
    assert build(Source, {"size": 3}, Source(samples=Skewed(skew=0.5))).samples == Skewed(size=3, skew=0.5)
    for start in (Source(), Source(samples=Folder(folder="abc"))):
        with pytest.raises(ConflictError, match="size cannot be combined with folder"):
            build(Source, {"size": 3, "folder": "abc"}, start)
    with pytest.raises(ConflictError, match="size cannot be combined with folder"):
        build(Source, {"size": 3}, Source(samples=Folder(folder="abc")))


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "text"),
    [
        (Range(above=0), [1e-300, 1e300], [0, -1, float("inf"), float("nan")], "a finite number above 0"),
        (Range(least=0, below=1), [0, 0.5], [1, -0.1], "a number from 0 to below 1"),
        (Range(least=0, most=16), [0, 16], [17, -1], "a number from 0 to 16"),
        (Range(above=0, most=1_000_000), [1_000_000], [0, 1e7], "a number above 0 and at most 1,000,000"),
    ],
)
def test_a_range_says_what_it_allows(
    allowed: Range, inside: list[float], outside: list[float], text: str
) -> None:
    assert all(map(allowed.allows, inside))
    assert not any(map(allowed.allows, outside))
    assert allowed.describe(whole=False) == text


def test_a_configuration_from_another_process_has_the_same_table() -> None:
    for schedule in ("sync", "async", "idfl"):
        config = RunConfig.from_options({"schedule": schedule})
        assert pickle.loads(pickle.dumps(config)).options() == config.options()
