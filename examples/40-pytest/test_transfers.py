# SPDX-License-Identifier: BSD-3-Clause
"""Tests that need RDMA, for machines that have none: each starts two programs with a device that needs no
hardware, no kernel module and no privileges.

    python3 -m pytest test_transfers.py
"""

import shutil
import subprocess

import pytest


@pytest.fixture
def pair():
    """Runs SERVER and CLIENT, each with a device of its own. {address} and {peer} are their addresses there."""
    if shutil.which("sluice") is None:
        pytest.skip("sluice is not installed")

    def run(server, client, timeout=60):
        return subprocess.run(
            ["sluice", "run", "--pair", "--timeout", str(timeout), "--", *server.split(), ":", *client.split()],
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.parametrize("size", [64, 4096, 60000])
def test_messages_go_both_ways(pair, size):
    done = pair(f"ucmatose -b {{address}} -S {size} -C 5", f"ucmatose -s {{peer}} -S {size} -C 5")
    assert done.returncode == 0, done.stdout + done.stderr


def test_datagrams_arrive(pair):
    done = pair("udaddy -b {address} -C 5", "udaddy -s {peer} -C 5")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nobody_listens(pair):
    """What fails, fails: the exit status is that of the first program that didn't end with 0."""
    done = pair("true", "ucmatose -s {peer} -C 5")
    assert done.returncode != 0
