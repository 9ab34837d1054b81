#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_sbom.py SBOM TARBALL [PACKAGE.deb...]: what SPDX 2.3 demands of a document, and whether it says the truth of these.

Each clause is from the specification; nothing here is shared with what writes the document. It also breaks the document in
several ways, and demands that each is noticed.

Exit status: 0 all good, 1 the document is wrong, or a mistake isn't noticed.
"""
import copy
import hashlib
import json
import os
import re
import sys
import tarfile

ID = re.compile(r"^SPDXRef-[A-Za-z0-9.-]+$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
LICENCES = {"BSD-3-Clause", "NONE", "NOASSERTION"}
KINDS = {"DESCRIBES", "CONTAINS", "DEPENDS_ON", "BUILD_DEPENDENCY_OF", "GENERATED_FROM"}
LENGTHS = {"SHA1": 40, "SHA256": 64}


def required(thing, where, *names):
    return [f"{where}: no {name}" for name in names if not thing.get(name) and thing.get(name) is not False]


def of_document(made):  # clauses 6.1 to 6.9
    found = required(made, "document", "spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo")
    creation = made.get("creationInfo", {})
    found += required(creation, "creationInfo", "created", "creators")
    if made.get("spdxVersion") != "SPDX-2.3" or made.get("dataLicense") != "CC0-1.0" or made.get("SPDXID") != "SPDXRef-DOCUMENT":
        found.append("document: isn't SPDX 2.3 under CC0-1.0")
    if not TIME.match(creation.get("created", "")):
        found.append("creationInfo: created is no time in UTC")
    if not all(re.match("(Tool|Organization|Person): ", who) for who in creation.get("creators", [])):
        found.append("creationInfo: a creator of no kind")
    if not re.match(r"^[a-z][a-z0-9+.-]*:[^#]+$", made.get("documentNamespace", "")):
        found.append("document: documentNamespace is no URI")
    return found


def of_checksums(thing, where):  # clauses 7.10 and 8.4
    return [f"{where}: a checksum of {sum.get('algorithm')} is wrong" for sum in thing.get("checksums", [])
            if not re.match("^[0-9a-f]{%d}$" % LENGTHS.get(sum.get("algorithm"), 0), sum.get("checksumValue", ""))]


def of_package(package):  # clause 7
    where = package.get("name", "package")
    found = required(package, where, "name", "SPDXID", "downloadLocation") + of_checksums(package, where)
    if package.get("filesAnalyzed", True):
        found += required(package, where, "packageVerificationCode", "licenseInfoFromFiles")
    for name in ("licenseConcluded", "licenseDeclared"):
        if package.get(name) not in LICENCES:
            found.append(f"{where}: {name} is no licence")
    return found


def of_file(file):  # clause 8
    where = file.get("fileName", "file")
    found = required(file, where, "fileName", "SPDXID", "checksums", "licenseConcluded", "licenseInfoInFiles", "copyrightText")
    if "SHA1" not in {sum.get("algorithm") for sum in file.get("checksums", [])}:
        found.append(f"{where}: no SHA1")
    if not set(file.get("licenseInfoInFiles", [])) <= LICENCES:
        found.append(f"{where}: an unknown licence")
    return found + of_checksums(file, where)


def of_relations(made):  # clause 11
    ids = [made.get("SPDXID")] + [thing.get("SPDXID", "") for thing in made.get("packages", []) + made.get("files", [])]
    found = [f"{name!r} is no identifier" for name in ids if not ID.match(name or "")]
    if len(set(ids)) != len(ids):
        found.append("an identifier stands for two things")
    for one in made.get("relationships", []):
        if one.get("relationshipType") not in KINDS or not {one.get("spdxElementId"), one.get("relatedSpdxElement")} <= set(ids):
            found.append(f"a relationship of nothing: {one}")
    if not any(one.get("relationshipType") == "DESCRIBES" for one in made.get("relationships", [])):
        found.append("the document describes nothing")
    return found


def of_content(made, content, debs):
    """Names and checksums are those of the files; the verification code is that of clause 7.9."""
    sums = {file["fileName"]: {sum["algorithm"]: sum["checksumValue"] for sum in file["checksums"]} for file in made["files"]
            if file.get("checksums") and file.get("fileName")}
    real = {name: {"SHA1": hashlib.sha1(data).hexdigest(), "SHA256": hashlib.sha256(data).hexdigest()} for name, data in content.items()}
    found = [f"{name}: isn't listed as it is" for name in sorted(set(sums) | set(real)) if sums.get(name) != real.get(name)]
    code = hashlib.sha1("".join(sorted(sum["SHA1"] for sum in real.values())).encode()).hexdigest()
    if not any(package.get("packageVerificationCode", {}).get("packageVerificationCodeValue") == code for package in made["packages"]):
        found.append("no package has the verification code of the files")
    for path in debs:
        with open(path, "rb") as file:
            real = hashlib.sha256(file.read()).hexdigest()
        if not any(package.get("packageFileName") == os.path.basename(path) and
                   {"algorithm": "SHA256", "checksumValue": real} in package.get("checksums", []) for package in made["packages"]):
            found.append(f"{path}: isn't listed as it is")
    return found


def problems(made, content, debs):
    found = of_document(made) + of_relations(made)
    for package in made.get("packages", []):
        found += of_package(package)
    for file in made.get("files", []):
        found += of_file(file)
    return found + of_content(made, content, debs)


def mistakes(made):
    """Copies of the document, each with one mistake."""
    def change(do):
        broken = copy.deepcopy(made)
        do(broken)
        return broken
    yield "no version", change(lambda it: it.pop("spdxVersion"))
    yield "a time of no kind", change(lambda it: it["creationInfo"].update(created="yesterday"))
    yield "a package without a name", change(lambda it: it["packages"][0].pop("name"))
    yield "another verification code", change(lambda it: it["packages"][0]["packageVerificationCode"].update(packageVerificationCodeValue="0" * 40))
    yield "a file without checksums", change(lambda it: it["files"][0].pop("checksums"))
    yield "another checksum", change(lambda it: it["files"][0]["checksums"][1].update(checksumValue="0" * 64))
    yield "a file that is missing", change(lambda it: it["files"].pop())
    yield "a relationship to nothing", change(lambda it: it["relationships"][0].update(relatedSpdxElement="SPDXRef-nothing"))
    yield "an identifier twice", change(lambda it: it["files"][0].update(SPDXID=it["files"][1]["SPDXID"]))


def main():
    sbom, tarball, *debs = sys.argv[1:]
    with open(sbom) as file:
        made = json.load(file)
    with tarfile.open(tarball) as archive:
        content = {"./" + member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in archive if member.isfile()}
    found = problems(made, content, debs)
    found += [f"not noticed: {what}" for what, broken in mistakes(made) if not problems(broken, content, debs)]
    needs = {one["spdxElementId"] for one in made["relationships"] if one["relationshipType"] == "BUILD_DEPENDENCY_OF"}
    if not {"SPDXRef-Package-cmake", "SPDXRef-Package-libibverbs-dev"} <= needs:
        found.append("what building needs isn't listed")
    print("\n".join(found[:20]) or f"{len(made['files'])} files, {len(made['packages'])} packages, {len(made['relationships'])} relationships")
    sys.exit(bool(found))


main()
