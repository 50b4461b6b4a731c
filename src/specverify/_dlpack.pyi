from typing import Any

import numpy as np
import numpy.typing as npt

def bfloat16_bits(tensor: Any) -> npt.NDArray[np.uint16]: ...
