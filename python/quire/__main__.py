"""``python -m quire`` is the command ``sample``."""

import os
import sys

from ._command import find_sample

if __name__ == "__main__":
    sample = find_sample()
    os.execv(sample, [sample, *sys.argv[1:]])
