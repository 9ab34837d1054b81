#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""steps_of.py ACTION PATH [INPUT=VALUE...]: the steps of a composite action, as one shell script.

ACTION is its action.yml, and PATH where its directory is for the script. Each step runs as GitHub runs it, in a bash of its own
that ends at the first failure, with what earlier steps have put into $GITHUB_ENV.
"""
import re
import shlex
import sys

import yaml


def main(action, path, *given):
    with open(action, encoding="utf-8") as text:
        document = yaml.safe_load(text)
    inputs = {name: str(about.get("default", "")) for name, about in document["inputs"].items()}
    for pair in given:
        name, _, value = pair.partition("=")
        if name not in inputs:
            sys.exit(f"{action} has no input '{name}'; it has: {' '.join(inputs)}")
        inputs[name] = value
    missing = [name for name, about in document["inputs"].items() if about.get("required") and not inputs[name]]
    if missing:
        sys.exit(f"{action} needs the input '{missing[0]}'")
    known = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": path}
    print("set -eu\nGITHUB_ENV=$(mktemp)\nexport GITHUB_ENV")
    for step in document["runs"]["steps"]:
        command = re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda m: known[m[1]], step["run"])
        print(f"echo {shlex.quote('== ' + step['name'])}")
        print("while IFS= read -r line; do export \"$line\"; done <\"$GITHUB_ENV\"")
        print(f"{step['shell']} --noprofile --norc -eo pipefail -c {shlex.quote(command)}")
    print("while IFS= read -r line; do export \"$line\"; done <\"$GITHUB_ENV\"")


main(*sys.argv[1:])
