"""Read batches of CIFAR-10's python archive without running any code that a pickle names."""

import io
import pickle
import pickletools

import numpy as np
from numpy.typing import NDArray

from slotwise.data.dataset import DataError

_STANDS_FOR = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }
)


class _Record:
    """Placeholder for the numpy objects in a pickle: keeps its arguments and does nothing.

    Numpy's own array and dtype would trust the state that a pickle sets, down to raw pointers, so none of
    numpy's code sees the file; the array is made here from the recorded shape and bytes.
    """

    __slots__ = ("arguments", "state")

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _BatchUnpickler(pickle.Unpickler):
    """Unpickler for dicts, lists, numbers, strings and the names in a pickled numpy array of bytes."""

    def find_class(self, module: str, name: str) -> type[_Record]:
        if (module, name) in _STANDS_FOR:
            return _Record
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def decode_pickle(raw: bytes, images: int, source: str) -> tuple[NDArray[np.uint8], object]:
    """Return the pixels [images, 3, 32, 32] and the unchecked labels of one pickled batch.

    Raises:
        DataError: the pickle names anything but a numpy array, or is not a batch of CIFAR-10.
    """
    content = _unpickled(raw, source)
    if not isinstance(content, dict):
        raise DataError(f"{source} holds a {type(content).__name__}, must hold a dict of data and labels")
    return _pixels(_field(content, "data"), images, source), _field(content, "labels")


def _unpickled(raw: bytes, source: str) -> object:
    try:
        _check_numbering(raw)
        return _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except Exception as error:  # a hostile or damaged pickle can raise any
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{source} is refused, must be a pickled batch of CIFAR-10: {reason}") from None


def _check_numbering(raw: bytes) -> None:
    """Refuse a table of objects larger than the pickle, with which 8 bytes could fill the memory."""
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name in {"PUT", "LONG_BINPUT"} and (argument or 0) > len(raw):
            raise pickle.UnpicklingError(f"it numbers an object {argument}")


def _field(content: dict[object, object], name: str) -> object:
    """Return a field by name; Python 2 wrote names as bytes, a batch saved by Python 3 has strings."""
    return content.get(name.encode(), content.get(name))


def _pixels(data: object, images: int, source: str) -> NDArray[np.uint8]:
    match data:
        case _Record(
            state=(_, (int(rows), 3072), _Record(arguments=(b"u1" | "u1", *_)), fortran, bytes(pixels))
        ) if rows == images and len(pixels) == images * 3072:
            flat = np.frombuffer(pixels, np.uint8).reshape((images, 3072), order="F" if fortran else "C")
            return flat.reshape(images, 3, 32, 32)
    raise DataError(f"{source} holds other data than a uint8 array of {images} x 3072")
