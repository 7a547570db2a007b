"""Numba kernels that train a small convolutional network at nearly the speed of the machine."""
