"""The interpreter of options: from declarations come checks, flat tables, refusals, flags and help.

An option is a field of a frozen dataclass. Its annotation has the type and, with `Range`, what is allowed;
its line under ``Attributes:`` is the help text. A field marked with `Choice` holds one of several
alternatives, each with options of its own: an option of an alternative that was not chosen does not exist.
This package knows no option by name.
"""

from slotwise.options.declarations import (
    Choice,
    Derived,
    Either,
    FileName,
    Found,
    Named,
    NoFlag,
    Option,
    OrText,
    Range,
    StandsFor,
    declared,
    found_names,
    names_of,
)
from slotwise.options.shorthands import Shorthand, blaming, expand
from slotwise.options.tables import (
    allowed_names,
    build,
    choose,
    flat,
    is_given,
    nested,
    replaced_options,
    resolved,
    rivals,
    spread,
    table_of,
)
from slotwise.options.user_function import UserFunction, loaded

__all__ = [
    "Choice", "Derived", "Either", "FileName", "Found", "Named", "NoFlag", "Option", "OrText", "Range",
    "Shorthand", "StandsFor", "UserFunction", "allowed_names", "blaming", "build", "choose", "declared",
    "expand", "flat", "found_names", "is_given", "loaded", "names_of", "nested", "replaced_options",
    "resolved", "rivals", "spread", "table_of",
]  # fmt: skip
