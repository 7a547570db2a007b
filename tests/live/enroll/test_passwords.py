import base64

from slotwise.live.enroll.passwords import hashed, new_password, password_file

# Written by: mosquitto_passwd -c -b FILE x 'correct horse' (mosquitto 2.0.11)
LINE = (
    "x:$7$101$06KO7BHq8Hatp6QL$"
    "vNUUgBxDJusuvq2wkAFQevlA3L6atFTsaqkLc5R+IRox/tNYH0P7MtAIZHoigUiUOALEcjhzUzOO77imjTKv/g==\n"
)


def test_the_password_file_is_the_one_that_mosquitto_passwd_writes() -> None:
    salt = base64.b64decode("06KO7BHq8Hatp6QL")
    assert password_file({"x": hashed("correct horse", salt)}) == LINE


def test_the_same_password_is_kept_in_another_way_each_time() -> None:
    assert hashed("correct horse") != hashed("correct horse")


def test_no_password_is_like_another_and_each_has_256_bits() -> None:
    passwords = {new_password() for _ in range(100)}
    assert len(passwords) == 100
    assert all(len(base64.urlsafe_b64decode(password + "=")) == 32 for password in passwords)
