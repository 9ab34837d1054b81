#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes what a release is made of, as SPDX 2.3 in JSON.

Usage: sbom.py TREE TARBALL VERSION TIME OUTPUT [PACKAGE.deb...]

TREE holds debian/control, which names what building needs, and LICENSE. TARBALL is the source package: each of its files
is listed with its checksums, and with the licence that its SPDX-License-Identifier line names; a file without such a line
is under LICENSE, as all of them. The Debian packages are listed with their checksums and dependencies. TIME, in seconds
since 1970, is the commit's: the same release gives the same bytes.
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid

LICENCE = "BSD-3-Clause"  # LICENSE's
LICENCE_LINE = re.compile(rb"SPDX-License-Identifier:[ \t]*([A-Za-z0-9.+-]+)")
BEGINNING = 1000  # bytes in which a licence line is looked for
COPYRIGHT = "Copyright 2026, the Sluice authors"


def spdx_id(*words):
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.-]", "-", word) for word in words)


def checksums(content):
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, content).hexdigest()} for name in ("sha1", "sha256")]


def file_entry(number, name, content):
    line = LICENCE_LINE.search(content[:BEGINNING])
    return {"SPDXID": spdx_id("File", str(number)), "fileName": "./" + name, "checksums": checksums(content),
            "licenseConcluded": line[1].decode() if line else LICENCE,
            "licenseInfoInFiles": [line[1].decode() if line else "NONE"], "copyrightText": COPYRIGHT}


def files_of(tarball):
    with tarfile.open(tarball) as archive:
        members = [member for member in archive if member.isfile()]
        return [file_entry(number, member.name.split("/", 1)[1], archive.extractfile(member).read())
                for number, member in enumerate(members, 1)]


def package(name, version, **more):
    return {"SPDXID": spdx_id("Package", name), "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            **({"versionInfo": version} if version else {}), **more}


def our_package(name, version, path, **more):
    with open(path, "rb") as file:
        sums = checksums(file.read())
    return package(name, version, **{"packageFileName": os.path.basename(path), "checksums": sums, "licenseConcluded": LICENCE,
                                     "licenseDeclared": LICENCE, "copyrightText": COPYRIGHT, **more})


def source_package(version, tarball, files):
    # As clause 7.9 of SPDX 2.3 defines it: of the sorted checksums of all files.
    sums = sorted(entry["checksums"][0]["checksumValue"] for entry in files)
    return our_package("sluice", version, tarball, SPDXID=spdx_id("Source"), filesAnalyzed=True, primaryPackagePurpose="SOURCE",
                       packageVerificationCode={"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()},
                       licenseInfoFromFiles=sorted({licence for entry in files for licence in entry["licenseInfoInFiles"]}))


def dependencies(field):
    """NAME, LIMITS of each: the first of alternatives, without what is said of architectures and build profiles."""
    for item in field.split(","):
        words = re.match(r"\s*([a-z0-9][a-z0-9+.-]+)(?::\w+)?\s*(?:\(([^)]*)\))?", item)
        if words:
            yield words[1], words[2] or ""


def fields_of(deb):
    names = ("Package", "Version", "Depends", "Pre-Depends")
    out = subprocess.run(["dpkg-deb", "-f", deb, *names], check=True, capture_output=True, text=True).stdout
    return dict(line.split(": ", 1) for line in out.splitlines())


def build_dependencies(tree):
    with open(os.path.join(tree, "debian/control")) as control:
        return dependencies(re.search(r"^Build-Depends:((?:.*\n)(?:[ \t].*\n)*)", control.read(), re.M)[1])


def relation(one, kind, other, limits=""):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other, **({"comment": limits} if limits else {})}


def document(tree, tarball, version, time, debs):
    files = files_of(tarball)
    source = source_package(version, tarball, files)
    packages = {source["SPDXID"]: source}
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", source["SPDXID"])]
    relations += [relation(source["SPDXID"], "CONTAINS", entry["SPDXID"]) for entry in files]

    def foreign(name):
        return packages.setdefault(spdx_id("Package", name), package(name, None, supplier="NOASSERTION"))["SPDXID"]

    binaries = [(deb, fields_of(deb)) for deb in sorted(debs)]
    for deb, fields in binaries:
        made = our_package(fields["Package"], fields["Version"], deb, primaryPackagePurpose="INSTALL")
        packages[made["SPDXID"]] = made
        relations.append(relation(made["SPDXID"], "GENERATED_FROM", source["SPDXID"]))
    for _, fields in binaries:
        for name, limits in dependencies(fields.get("Pre-Depends", "") + "," + fields.get("Depends", "")):
            relations.append(relation(spdx_id("Package", fields["Package"]), "DEPENDS_ON", foreign(name), limits))
    for name, limits in build_dependencies(tree):
        relations.append(relation(foreign(name), "BUILD_DEPENDENCY_OF", source["SPDXID"], limits))
    content = source["checksums"][1]["checksumValue"] + "".join(entry["checksums"][1]["checksumValue"] for _, entry in
                                                               sorted(packages.items()) if "checksums" in entry)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"sluice-{version}",
        "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, content).urn,
        "creationInfo": {"created": datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Organization: The Sluice authors", f"Tool: sluice-release-{version}"]},
        "packages": list(packages.values()), "files": files, "relationships": relations}


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    tree, tarball, version, time, output, *debs = sys.argv[1:]
    made = document(tree, tarball, version, int(time), debs)
    with open(output, "w") as file:
        json.dump(made, file, indent=1)
        file.write("\n")


main()
