# SPDX-License-Identifier: BSD-3-Clause
"""Sluice, for programs and tests in a virtual environment.

The command is `sluice` in the environment's bin. For a process that is started by other means, environment() has what it needs to
see the device:

    subprocess.run([sys.executable, "-c", "..."], env=sluice_rdma.environment())

What it stands on is the distribution's: libibverbs, librdmacm, libnl-3 and libsmartcols. The first use makes two links to the
former, prefix/lib/sluice/drop-in/real/*, which `pip uninstall` leaves, since they lead out of the environment.
"""
import os
import pathlib
import subprocess
import sys


def prefix():
    """Where the command, the libraries and what they need lie."""
    return pathlib.Path(__file__).parent / "prefix"


def command():
    """The path of the command."""
    return prefix() / "bin" / "sluice"


def _distributions(library):
    """The path of the library that the loader takes, or None."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    word = "x86-64" if os.uname().machine == "x86_64" else "AArch64" if os.uname().machine == "aarch64" else ""
    found = [line.rpartition(" => ")[2] for line in listed.splitlines()
             if line.strip().startswith(library + " ") and word in line]
    return found[0] if found else None


def drop_in():
    """The directory of the libraries that stand for libibverbs and librdmacm.

    They find the distribution's by links beside them, which a wheel can't carry: the first call makes them.
    """
    directory = prefix() / "lib" / "sluice" / "drop-in"
    for library in ("libibverbs.so.1", "librdmacm.so.1"):
        link = directory / "real" / library
        if link.is_symlink() and link.exists():
            continue
        target = _distributions(library)
        if target is None:
            raise FileNotFoundError(f"{library} isn't installed; on Debian: apt install libibverbs1 librdmacm1 ibverbs-providers")
        fresh = link.with_name(f"{library}.{os.getpid()}")
        try:
            fresh.symlink_to(target)
            fresh.replace(link)
        except OSError as error:
            raise PermissionError(f"{link} can't be made a link to {target} ({error.strerror}); call `sluice --version` once with the "
                                  "rights of the environment's owner") from error
    return directory


def environment(base=None):
    """BASE, by default this process's environment, with which a program sees uroce."""
    made = dict(os.environ if base is None else base)
    made["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(drop_in()), made.get("LD_LIBRARY_PATH")]))
    return made


def main():
    """The command, in this process's place."""
    try:
        drop_in()
    except OSError as error:
        print("sluice:", error, file=sys.stderr)
        sys.exit(1)
    os.execv(command(), [str(command()), *sys.argv[1:]])
