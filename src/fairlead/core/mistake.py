"""Words for an exception that should not have been: what it says, and where it was raised.

Called by `core.poison` and `core.cycle`, which set aside what brought it to light.
"""

import traceback


def mistake(error: Exception) -> str:
    """One line, such as `KeyError: 'n0' in match.py:117`."""
    frames = traceback.extract_tb(error.__traceback__)
    file = frames[-1].filename.rpartition("/")[2] if frames else ""
    place = f" in {file}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
