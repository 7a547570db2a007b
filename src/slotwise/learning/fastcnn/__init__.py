"""A small convolutional network at full machine speed, in Python and numba."""
