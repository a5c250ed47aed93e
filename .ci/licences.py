#!/usr/bin/env python3
"""Holds the licence of each dependency, and where it comes from, to deny.toml.

cargo metadata --format-version 1 --locked --all-features | .ci/licences.py
"""

import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def is_allowed(expression, allow):
    """Whether a licence expression can be met by the allowed licences alone."""
    words = re.findall(r"[()/]|[\w.+-]+", expression)

    def take(*expected):
        return bool(words) and words[0] in expected and bool(words.pop(0))

    def either():
        met = both()
        while take("OR", "/"):
            met = both() or met
        return met

    def both():
        met = one()
        while take("AND"):
            met = one() and met
        return met

    def one():
        if take("("):
            met = either()
            return take(")") and met
        licence = words.pop(0) if words else ""
        if take("WITH"):
            licence += " WITH " + (words.pop(0) if words else "")
        return licence in allow

    return either() and not words


def main():
    allow = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    others = [package for package in json.load(sys.stdin)["packages"] if package["source"]]
    wrong = [
        f"{package['name']} {package['version']}: {package['license']}, from {package['source']}"
        for package in others
        if package["source"] != REGISTRY or not is_allowed(package["license"] or "", allow)
    ]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(others)} dependencies, {len(wrong)} that deny.toml does not allow")
    return 1 if wrong or not others else 0


if __name__ == "__main__":
    sys.exit(main())
