"""Names of array types, shared by every module."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complexfloating]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.signedinteger]
