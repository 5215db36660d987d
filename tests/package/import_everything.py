"""Imports every module of the installed package; run in a clean environment to check a wheel."""

import importlib
import pkgutil
import sys

import tinygrad


def main() -> int:
    broken = []
    count = 0
    for module in pkgutil.walk_packages(tinygrad.__path__, "tinygrad."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
            count += 1
        except Exception as error:  # every failure is reported, whatever its type
            broken.append(f"{module.name}: {type(error).__name__}: {error}")
    print(f"{count} modules of {tinygrad.__file__} import")
    print("\n".join(broken))
    return 1 if broken or count < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
