"""Where the files of models lie that packages ship; the packages themselves are not imported."""

from importlib import metadata
from pathlib import Path


def shipped(package: str, ending: str) -> Path:
    """The one file of an installed package whose path ends so. Raises LookupError for none or several."""
    names = metadata.files(package) or []
    found = [name for name in names if name.as_posix().endswith(ending)]
    if len(found) != 1:
        raise LookupError(f"{package} has {len(found)} files that end in {ending!r}, expected one")
    return Path(str(found[0].locate()))
