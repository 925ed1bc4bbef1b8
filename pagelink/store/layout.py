"""What the manifest of a store must say: plain file names, and counts that the files agree with.

All of it is checked when a store is opened, without reading any file, so that a manifest that was
edited or made by others can neither lead out of the folder nor past the end of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pagelink.errors import StoreError
from pagelink.graph.reverse_relations import PairSet
from pagelink.store.manifest import MANIFEST, npy_header
from pagelink.store.strings import PARTS

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(npy|arrow)")
SHA256 = re.compile(r"[0-9a-f]{64}")
NUMBERS = "biufc"
"""Kinds of NumPy types that are numbers, and nothing that is unpacked."""

Shape = tuple[int, ...]
Wrong = Callable[[str], StoreError]


def check_layout(manifest: Mapping[str, Any], folder: Path) -> None:
    """Check what a manifest says against itself.

    Raises:
        StoreError: an entry is missing, a file has no plain name, or a count does not agree with
            the size of a file.
    """

    def wrong(what: str) -> StoreError:
        return StoreError(f"{folder / MANIFEST}: damaged, {what}. Build the store again.")

    try:
        for file, entry in manifest["files"].items():
            _check_entry(file, entry, wrong)
        _check_graph(manifest, wrong)
        needed = dict(_needed(manifest))
        for file, (dtype, shape) in needed.items():
            if file not in manifest["files"]:
                raise wrong(f"it does not list the file {file}")
            entry = manifest["files"][file]
            found = entry["dtype"], entry["shape"] and tuple(entry["shape"])
            if found[0] != dtype or not _fits(found[1], shape):
                raise wrong(
                    f"{file} is of type {found[0]} and shape {found[1]}, not {dtype} and {shape}"
                )
    except StoreError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise wrong("an entry is missing or not of its kind") from error


def _check_entry(file: str, entry: Mapping[str, Any], wrong: Wrong) -> None:
    if not PLAIN_NAME.fullmatch(file):
        raise wrong(f"{file!r} is not a plain file name")
    if not SHA256.fullmatch(entry["sha256"]):
        raise wrong(f"{file} has no sha256")
    size, dtype, shape = entry["bytes"], entry["dtype"], entry["shape"]
    if dtype is None:
        expected = size if _is_count(size) and shape is None else -1
    elif np.dtype(dtype).kind in NUMBERS and all(map(_is_count, shape)):
        expected = len(npy_header(dtype, shape)) + prod(shape) * np.dtype(dtype).itemsize
    else:
        expected = -1
    if size != expected:
        raise wrong(f"{file} cannot be {size!r} bytes of type {dtype} and shape {shape}")


def _check_graph(manifest: Mapping[str, Any], wrong: Wrong) -> None:
    """Node types and relations are named once, and refer to each other."""
    nodes, relations = manifest["nodes"], manifest["relations"]
    node_types = [each["type"] for each in nodes]
    edge_types = [tuple(each["type"]) for each in relations]
    for each in (*nodes, *relations):
        if not _is_count(each["count"]):
            raise wrong(f"{each['type']} has the count {each['count']!r}")
    if len({*node_types}) < len(node_types) or not all(isinstance(t, str) for t in node_types):
        raise wrong("the node types are not different texts")
    if len({*edge_types}) < len(edge_types) or not all(
        len(t) == 3 and isinstance(t[1], str) and {t[0], t[2]} <= {*node_types} for t in edge_types
    ):
        raise wrong("the relations are not between node types")
    classes = manifest["relation_class"]
    if len(classes) != len(edge_types) or not all(
        _is_count(each) and each < len(edge_types) for each in classes
    ):
        raise wrong("relation_class does not say one relation for each")
    num_rows = manifest["files"]["edge_index.npy"]["shape"][0]
    for edge_type, each in zip(edge_types, relations, strict=True):
        PairSet(**each["pairs"])
        first, turned = each["rows"]["first"], each["rows"]["turned"]
        if not _is_count(first) or first + each["count"] > num_rows or turned not in (True, False):
            raise wrong(f"the edges of {edge_type} are not where they can be")
        if not {tuple(near) for near in each["near_reverses"]} <= {*edge_types}:
            raise wrong(f"{edge_type} has near reverses that are no relations")
    schema = manifest["schema"]
    counts = {t: each["count"] for t, each in schema["nodes"].items()}
    listed = [(tuple(each["type"]), each["count"]) for each in schema["relations"]]
    if counts != {each["type"]: each["count"] for each in nodes} or listed != [
        (t, each["count"]) for t, each in zip(edge_types, relations, strict=True)
    ]:
        raise wrong("the schema has other counts")


def _needed(manifest: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str | None, Shape | None]]]:
    """Yield the files there must be, with type and shape; -1 stands for any number."""
    num_nodes = sum(each["count"] for each in manifest["nodes"])
    num_edges = sum(each["count"] for each in manifest["relations"])
    num_arcs = manifest["files"]["arc_dst.npy"]["shape"][0]
    integers, longs, flags = "<i4", "<i8", "|b1"
    for names, dtype, size in (
        (("src", "dst", "relation", "column", "fact", "opposite"), integers, num_edges),
        (("in_ptr", "arc_ptr"), longs, num_nodes + 1),
        (("degree", "node_type"), integers, num_nodes),
        (("representative",), flags, num_edges),
        (("arc_dst", "arc_edge"), integers, num_arcs),
        (("arc_reversed",), flags, num_arcs),
        (("fact_ptr",), longs, -1),
        (("fact_edges",), integers, num_edges),
    ):
        yield from ((f"{name}.npy", (dtype, (size,))) for name in names)
    yield "edge_index.npy", (integers, (-1, 2))
    for each in (*manifest["nodes"], *manifest["relations"]):
        for key, value in each["values"].items():
            ((kind, said),) = value.items()
            if kind == "strings":
                sizes = (-1, each["count"] + 1, each["count"], each["count"])
                types = ("|u1", longs, "<u8", integers)
                for part, size, dtype in zip(PARTS, sizes, types, strict=True):
                    yield f"{said}.{part}.npy", (dtype, (size,))
            elif kind == "table":
                yield said, (None, None)
            elif kind == "array":
                entry = manifest["files"][said]
                shape = tuple(entry["shape"])
                yield said, (entry["dtype"], (each["count"], *shape[1:]) if key == "x" else shape)
            elif kind != "plain":
                raise ValueError(kind)


def _fits(shape: Shape | None, expected: Shape | None) -> bool:
    if shape is None or expected is None:
        return shape is expected
    return len(shape) == len(expected) and all(
        wanted in (-1, found) for found, wanted in zip(shape, expected, strict=True)
    )


def _is_count(number: object) -> bool:
    return type(number) is int and number >= 0
