#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Looks at manifests for Kubernetes as an API server would, as far as that goes without one.

Usage: check_kubernetes.py FILE...

Each field must be one that the API's reference documents for its place, of the right type, and none that it requires may be
missing; names that one object has for another must lead there. Only the fields that our manifests use are known: a new one is
to be looked up, and written down here. Before that, it breaks each manifest and demands that it notices.

Exit status: 0 all good, 1 something isn't: a line for each.
"""
import copy
import sys

import yaml

LABELS = {"*": str}
META = {"name!": str, "labels": LABELS}
CAPABILITIES = {"add": [str], "drop": [str]}
SECURITY = {"allowPrivilegeEscalation": bool, "capabilities": CAPABILITIES, "readOnlyRootFilesystem": bool, "runAsNonRoot": bool,
            "runAsUser": int, "seccompProfile": {"type!": ("RuntimeDefault", "Localhost", "Unconfined")}}
CONTAINER = {"name!": str, "image!": str, "command": [str], "args": [str], "securityContext": SECURITY,
             "resources": {"limits": {"*": (str, int)}, "requests": {"*": (str, int)}}}
POD = {"containers!": [CONTAINER], "hostNetwork": bool, "subdomain": str, "automountServiceAccountToken": bool,
       "restartPolicy": ("Always", "OnFailure", "Never")}
JOB = {"completions": int, "parallelism": int, "completionMode": ("Indexed", "NonIndexed"), "backoffLimit": int,
       "activeDeadlineSeconds": int, "template!": {"metadata": {"labels": LABELS}, "spec!": POD}}
SERVICE = {"clusterIP": str, "publishNotReadyAddresses": bool, "selector": LABELS,
           "ports": [{"name": str, "protocol": ("TCP", "UDP", "SCTP"), "port!": int}]}
PEER = {"podSelector": {"matchLabels": LABELS}}
POLICY_PORTS = [{"protocol": ("TCP", "UDP", "SCTP"), "port": int}]
POLICY = {"podSelector!": {"matchLabels": LABELS}, "policyTypes": [("Ingress", "Egress")],
          "ingress": [{"from": [PEER], "ports": POLICY_PORTS}], "egress": [{"to": [PEER], "ports": POLICY_PORTS}]}
KINDS = {("v1", "Pod"): POD, ("batch/v1", "Job"): JOB, ("v1", "Service"): SERVICE, ("networking.k8s.io/v1", "NetworkPolicy"): POLICY}


def of_object(thing, fields, where):
    required = [name[:-1] for name in fields if name.endswith("!")]
    found = [f"{where}: no {name}" for name in required if name not in thing]
    known = {name.rstrip("!"): kind for name, kind in fields.items()}
    for name, value in thing.items():
        kind = known.get(name, known.get("*"))
        found += [f"{where}.{name}: there is no such field"] if kind is None else of_type(value, kind, f"{where}.{name}")
    return found


def of_type(value, kind, where):
    if isinstance(kind, dict):
        return of_object(value, kind, where) if isinstance(value, dict) else [f"{where}: is no object"]
    if isinstance(kind, list):
        items = value if isinstance(value, list) and value else []
        return [text for number, item in enumerate(items) for text in of_type(item, kind[0], f"{where}[{number}]")] or \
            ([] if items else [f"{where}: is no list with something in it"])
    if isinstance(kind, tuple) and isinstance(kind[0], str):
        return [] if value in kind else [f"{where}: {value!r} is none of {', '.join(kind)}"]
    # For Python, a truth value is a number.
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return [] if right else [f"{where}: {value!r} has the wrong type"]


def pods_of(objects):
    for thing in objects:
        spec = thing.get("spec", {})
        if thing.get("kind") == "Pod":
            yield thing["metadata"].get("labels", {}), spec
        elif thing.get("kind") == "Job":
            yield spec.get("template", {}).get("metadata", {}).get("labels", {}), spec.get("template", {}).get("spec", {})


def of_restrictions(spec, where):
    """What the restricted standard for pods asks for; root is for devices alone, whose nodes are root's."""
    found = []
    for container in spec.get("containers", []):
        security = container.get("securityContext", {})
        device = any(name.startswith("rdma/") for name in container.get("resources", {}).get("limits", {}))
        if security.get("allowPrivilegeEscalation") is not False or security.get("capabilities", {}).get("drop") != ["ALL"]:
            found.append(f"{where}: a container has more rights than it needs")
        if not device and (security.get("runAsNonRoot") is not True or spec.get("hostNetwork")):
            found.append(f"{where}: uroce needs neither root nor the node's network")
    return found


def of_links(objects):
    pods = list(pods_of(objects))
    services = {thing["metadata"]["name"] for thing in objects if thing.get("kind") == "Service"}
    found = []

    def selects(labels, where):
        if not any(labels.items() <= own.items() for own, _ in pods):
            found.append(f"{where}: selects no pod")
    for thing in objects:
        spec, name = thing.get("spec", {}), thing.get("kind", "")
        if name == "Service":
            selects(spec.get("selector", {}), name)
        elif name == "NetworkPolicy":
            selectors = [spec.get("podSelector", {})]
            selectors += [peer["podSelector"] for rule in spec.get("ingress", []) + spec.get("egress", [])
                          for peer in rule.get("from", []) + rule.get("to", [])]
            for selector in selectors:
                selects(selector.get("matchLabels", {}), name)
            for way in ("ingress", "egress"):
                if not any(port == {"protocol": "UDP", "port": 4791} for rule in spec.get(way, []) for port in rule.get("ports", [])):
                    found.append(f"NetworkPolicy: {way} lets no RoCEv2 through")
        elif name == "Job" and spec.get("completionMode") == "Indexed" and spec.get("parallelism") != spec.get("completions"):
            found.append("Job: pods that need each other have to run at once")
    for _, spec in pods:
        if "subdomain" in spec and spec["subdomain"] not in services:
            found.append(f"Pod: no service is named {spec['subdomain']}")
        found += of_restrictions(spec, "Pod")
    return found


def problems(objects):
    found = []
    for thing in objects:
        fields = KINDS.get((thing.get("apiVersion"), thing.get("kind")))
        if fields is None:
            found.append(f"{thing.get('apiVersion')}, {thing.get('kind')}: an unknown kind")
        else:
            found += of_object(thing, {"apiVersion!": str, "kind!": str, "metadata!": META, "spec!": fields}, thing["kind"])
    return found or of_links(objects)


def mistakes(objects):
    """WHAT, COPY: each field left out of what requires it, misspelled, and given another type."""
    def places(thing, path):
        for key, value in thing.items() if isinstance(thing, dict) else enumerate(thing):
            yield path + [key]
            if isinstance(value, (dict, list)):
                yield from places(value, path + [key])
    for path in places(objects, []):
        # Labels and resources may have any name.
        if not isinstance(path[-1], str) or path[-2] in ("labels", "matchLabels", "selector", "limits", "requests"):
            continue
        broken = copy.deepcopy(objects)
        parent = broken
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1] + "s"] = parent.pop(path[-1])
        yield f"{path} misspelled", broken
        other = copy.deepcopy(broken)
        parent = other
        for key in path[:-1]:
            parent = parent[key]
        parent.pop(path[-1] + "s")
        parent[path[-1]] = 1.5
        yield f"{path} of another type", other


def main():
    found = []
    for file in sys.argv[1:]:
        with open(file) as text:
            objects = list(yaml.safe_load_all(text))
        found += [f"{file}: {what}" for what in problems(objects)]
        found += [f"{file}: not noticed: {what}" for what, broken in mistakes(objects) if not problems(broken)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))


main()
