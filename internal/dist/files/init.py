"""Finds and starts the program weir, which stands among the scripts of this package's environment."""

import os
import subprocess
import sys
import sysconfig


def find_weir():
    """Returns the path of the program."""
    name = "weir" + (".exe" if os.name == "nt" else "")
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user")),
        os.path.join(above, "bin"),  # pip install --target
        os.path.join(above, "Scripts"),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"weir: the program {name} is in none of {', '.join(folders)}: install the package weir-mcp again")


def main():
    """Becomes the program, so that signals and standard streams are its own."""
    try:
        program = find_weir()
    except FileNotFoundError as error:
        sys.exit(str(error))
    arguments = [program, *sys.argv[1:]]
    if os.name != "nt":
        os.execv(program, arguments)
    try:
        sys.exit(subprocess.call(arguments))
    except KeyboardInterrupt:
        sys.exit(130)
