"""Measurements of the project: each is a command of its own, named in README.md of this folder."""
