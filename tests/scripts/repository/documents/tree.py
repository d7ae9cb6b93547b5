"""The repository: its files, the words of its code, its documents, what the catalog has."""

import copy
import json
import os
import re

from markdown import Document

LEFT_OUT = {"target", ".git", "node_modules"}
# Files that are not code: documents, released scripts, and expected outputs.
NO_CODE = re.compile(r"\.(md|out|lock|zip)$|^sql/(releases|upgrade)/|^tests/(pg_regress|isolation|scripts/repository/documents)/|package-lock")


class Tree:
    def __init__(self, root, catalog):
        self.root = root
        self.only = None        # the paths to check; None: all
        self.files = set()
        self.folders = set()
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in LEFT_OUT]
            under = os.path.relpath(folder, root)
            under = "" if under == "." else under + "/"
            self.files |= {under + name for name in files}
            self.folders |= {under + name for name in folders}
        self.sources = {path: self._text(path) for path in self.files if self._is_text(path)}
        self.documents = {path: Document(path, text) for path, text in self.sources.items() if path.endswith(".md") and not path.startswith("bench/")}
        self.words = set()
        self.released = set()
        for path, text in self.sources.items():
            if not NO_CODE.search(path):
                self.words |= set(re.findall(r"\w+", text))
            elif path.startswith("sql/"):
                self.released |= set(re.findall(r"\w+", text))
        self.targets = set(re.findall(r"^([a-z-]+):", self.sources["Makefile"], re.M))
        self.specs = self._stems("tests/isolation/specs/", ".spec")
        self.tests = self.specs | self._stems("tests/pg_regress/sql/", ".sql") | self._stems("tests/scripts/", ".sh")
        self._read_catalog(catalog)

    def _is_text(self, path):
        return os.path.getsize(os.path.join(self.root, path)) < 1_000_000 and not re.search(r"\.(zip|png|so)$", path)

    def _text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _stems(self, under, ending):
        """The names of the files under a folder that end so. They are unique, whatever folders they are in."""
        return {path[: -len(ending)].rpartition("/")[2] for path in self.files if path.startswith(under) and path.endswith(ending)}

    def _read_catalog(self, catalog):
        catalog = json.loads(catalog)
        self.functions = {}
        for function in catalog["functions"]:
            self.functions.setdefault(function["name"], []).append(function)
        self.relations = catalog["relations"]
        self.settings = catalog["settings"]
        self.comments = catalog["comments"]
        self.postgres = set(catalog["postgres"])
        self.objects = set(self.functions) | set(self.relations) | {name.removeprefix("claims.") for name in self.settings}
        self.names = self.objects | set(catalog["types"]) | set(catalog["others"]) | self.tests
        for relation in self.relations.values():
            self.names |= set(relation["columns"])
        for variants in self.functions.values():
            for function in variants:
                self.names |= set(function["arguments"]) | set(function["columns"])

    def knows(self, word):
        return word in self.names or word in self.postgres or word in self.words

    def has_path(self, path, document=""):
        """Whether a file or folder is there: from the root, from the document's folder, or as the end of its path."""
        path = path.rstrip("/")
        beside = os.path.normpath(os.path.join(os.path.dirname(document), path))
        there = self.files | self.folders
        return path in there or beside in there or any(one.endswith("/" + path) for one in there)

    def changed(self, document=None, source=None, **others):
        """Returns a copy with another document (path, text), source (path, text), or catalog."""
        other = copy.copy(self)
        other.only = {path for path, _ in filter(None, (document, source))}
        if document:
            other.documents = {**self.documents, document[0]: Document(*document)}
        if source:
            other.sources = {**self.sources, source[0]: source[1]}
        for name, value in others.items():
            setattr(other, name, value)
        return other
