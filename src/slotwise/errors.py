"""What a user can do wrong, as values: the command line turns each into one line and exit code 2."""


class UserError(Exception):
    """A mistake the user can mend; the message is one line that says what is wrong and what is allowed."""


class InputError(UserError, ValueError):
    """A parameter outside its range: which one, what it was, what is allowed.

    The three parts stay apart so that the command line can name its own option (``--group-size``) where
    Python names the parameter (``group_size``).
    """

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        self.parameter, self.value, self.allowed = parameter, value, allowed
        super().__init__(f"{parameter} = {value}: must be {allowed}")
