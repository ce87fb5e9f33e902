"""Arrays as npy files (numpy.lib.format). Pickles, which could carry code, are neither read nor written."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from app.http.errors import ProblemError
from smoothcert.errors import shown

MEDIA_TYPE = "application/x-npy"
DTYPES = ("uint8", "float32", "float64")
"""Types of pixels: uint8 from 0 to 255, floating point from 0 to 1."""
MOST_AXES = 4
"""Images, channels, height, width."""
HEADER = 128
"""The bytes before the pixels in a file that `write` makes."""

Pixels = npt.NDArray[Any]

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def read(body: bytes) -> Pixels:
    """The array in an npy file, of one of DTYPES. Memory is allocated for the bytes sent, not for a claimed shape."""
    file = io.BytesIO(body)
    try:
        version = npy_format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"the version must be 1.0 or 2.0, got {version[0]}.{version[1]}")
        shape, fortran, dtype = _HEADERS[version](file)
    except Exception as error:  # numpy raises many types for damaged headers
        raise ProblemError("malformed_npy", f"the npy header cannot be read: {shown(str(error))}") from None
    if dtype.newbyteorder("=").name not in DTYPES:
        raise ProblemError("malformed_npy", f"the dtype must be one of {', '.join(DTYPES)}; got {shown(str(dtype))}")
    if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n <= len(body) for n in shape):
        raise ProblemError("malformed_npy", f"shape {shown(str(shape))} is not that of an array in {len(body):,} bytes")
    data = body[file.tell() :]
    if len(data) != (needed := math.prod(shape) * dtype.itemsize):
        raise ProblemError("malformed_npy", f"shape {list(shape)} of {dtype} takes {needed:,} bytes, got {len(data):,}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def write(array: Pixels) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
