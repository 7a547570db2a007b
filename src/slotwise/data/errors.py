"""The one exception of this subpackage."""

from slotwise.errors import UserError


class DataError(UserError, ValueError):
    """Data is missing, damaged or asked for in a way that cannot be met.

    The message is one line that names what is wrong and what is allowed, fit to be shown to a person.
    """
