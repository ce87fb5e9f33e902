"""Arrays as npy files (numpy.lib.format), which carry no code: pickles are neither read nor written."""

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
"""Pixels from 0 to 255, or from 0 to 1."""

MOST_AXES = 4

Pixels = npt.NDArray[Any]

_HEADERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


def read(body: bytes) -> Pixels:
    """The array in an npy file, of one of DTYPES; nothing is allocated for what the header only claims to be there."""
    file = io.BytesIO(body)
    try:
        version = npy_format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version[0]}.{version[1]} is not read here, wanted 1.0 or 2.0")
        shape, fortran, dtype = _HEADERS[version](file)
    except Exception as error:  # whatever numpy makes of bytes that somebody sent
        raise ProblemError("malformed_npy", f"the npy header cannot be read: {shown(str(error))}") from None
    if dtype.newbyteorder("=").name not in DTYPES:
        raise ProblemError("malformed_npy", f"the array has dtype {shown(str(dtype))}, wanted {', '.join(DTYPES)}")
    if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n <= len(body) for n in shape):
        raise ProblemError("malformed_npy", f"shape {shown(str(shape))} is not that of an array in {len(body):,} bytes")
    data = body[file.tell() :]
    if len(data) != (wanted := math.prod(shape) * dtype.itemsize):
        raise ProblemError("malformed_npy", f"shape {list(shape)} of {dtype} takes {wanted:,} bytes, got {len(data):,}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def write(array: Pixels) -> bytes:
    """The array as an npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
